// What a page holds besides the DOM: names that other scripts bring, and what the front ends leave there.

interface Window {
  /** How many groups of radio buttons the front ends of this page have made. */
  lrpChoices?: number;
  /** Data that widgets of several pages share, by name; each a script of its own. */
  companionData?: { [name: string]: unknown };
  /** Where a page has formulas. */
  MathJax?: { startup?: { promise?: Promise<void> } };
}

interface HTMLElement {
  /** Of a widget that is awake in a page without a kernel. */
  companion?: { model: unknown; changed: () => string[] };
}

/** What `page/browser_engine.py` puts in front of the engine: its worker's text, kernels in base64. */
declare const ENGINE: { worker: string; kernels: string[] };

/** reveal.js, staged by `lrp_book/sphinx/slides.py`. */
declare const Reveal: {
  initialize(options: { [name: string]: unknown }): Promise<void>;
  on(event: string, call: () => void): void;
  addKeyBinding(key: { keyCode: number; key: string; description: string }, call: () => void): void;
  getCurrentSlide(): HTMLElement;
  nextFragment(): boolean;
};
declare const RevealNotes: unknown;

/** Sphinx's search, on its page. */
declare const Search: {
  makeSearchSummary(...found: unknown[]): Node | null;
  htmlToText(markup: string, anchor?: string): string;
};
declare const Scorer: { objPrio: Record<number, number> };
declare const DOCUMENTATION_OPTIONS: { SHOW_SEARCH_SUMMARY: boolean };

type EngineOfPages = typeof import("../../lrp_companion/widgets/static/engine/companion.js").LRPCompanion;
/** A model that the browser's engine has loaded. */
type LRPCompanionModel = Awaited<ReturnType<EngineOfPages["load"]>>;
/** A map as the engine gives it. */
type EngineMap = import("../../lrp_companion/widgets/static/engine/explain.js").Explanation;

interface Window {
  /** The engine, once its script is there. */
  LRPCompanion?: EngineOfPages;
}
