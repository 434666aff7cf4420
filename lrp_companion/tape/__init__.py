"""The tape: a forward pass that keeps what each step needs, and the same steps backward by the rules."""
