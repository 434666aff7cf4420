"""The paper's tables and claims, next to what runs measure: rows without torch, tables, the report."""
