// What the engine says where it cannot go on: one line, worded as the package's own errors are.

/** An input, a page or a model that the engine cannot use; the message ends with the next step. */
export class CompanionError extends Error {
  /** @override */
  name = "CompanionError";
}

/**
 * Refuse, naming what was received, what was expected, and the next step.
 * @param {string} operation
 * @param {string} got
 * @param {string} expected
 * @param {string} hint
 * @returns {never}
 */
export function refuse(operation, got, expected, hint) {
  throw new CompanionError(`${operation}: got ${got}; expected ${expected}. Next step: ${hint}.`);
}
