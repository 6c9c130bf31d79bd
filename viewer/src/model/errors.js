/** What a person wrote that cannot be, with its place [start, end) in the text where there is one. */
export class LayoutError extends Error {
  constructor(message, span = null, hint = "") {
    super(message);
    this.name = "LayoutError";
    this.span = span;
    this.hint = hint;
  }
}

/** ``build()``, whose LayoutError gets ``span`` as its place if it has none. */
export function located(span, build) {
  try {
    return build();
  } catch (error) {
    if (error instanceof LayoutError && !error.span) error.span = span();
    throw error;
  }
}

/** The message with a caret under the place, as in a terminal. */
export function sayError(text, error) {
  const hint = error.hint ? `\n${error.hint}` : "";
  if (!error.span || !text.trim() || text.includes("\n")) return `${error.message}${hint}`;
  const [start, end] = error.span;
  return `${text}\n${" ".repeat(start)}${"^".repeat(Math.max(1, Math.min(end, text.length + 1) - start))}\n${error.message}${hint}`;
}
