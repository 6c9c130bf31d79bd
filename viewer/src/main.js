/** The page: what Python wrote into it, its tabs, its theme. */
import { answerAccess, answerLayout } from "./model/answers.js";
import { readExample } from "./model/examples.js";
import { BankMap, stateOf } from "./ui/banks.js";
import { h } from "./ui/dom.js";
import { Explorer } from "./ui/explorer.js";
import { MmaView } from "./ui/mma.js";
import { specTabs } from "./ui/spec.js";
import { State } from "./ui/state.js";

globalThis.tilegen = { answerLayout, answerAccess }; // the model, for tests and for the console

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const examples = data.examples.map(readExample);
  const example = data.spec ? examples[0] : null;
  const first = example?.layouts[0] ?? data.presets[0].layouts[0];
  const state = new State({
    v: data.opens, g: example?.name ?? "", ...stateOf(first), a: "column", o: "auto", n: "", m: data.mma[0]?.key ?? "", r: "", th: "0",
    x: "", y: "", z: "", e: "", f: "",
  });
  const banks = new BankMap(state, () => explorer.example, Boolean(data.spec), (marks) => explorer.setExtra(marks));
  const explorer = new Explorer(state, data.presets, examples, (subject) => banks.show(subject));
  const { g, p, t } = state.given; // a short link names a spec or a preset without its text
  if (g && !t) explorer.chooseSpec(g);
  if (p && !t) explorer.choosePreset(p);
  if ((g || p) && !t) state.set(state.given);
  explorer.read();
  const mma = new MmaView(state, data.mma);
  const tabs = [
    ...(data.spec ? specTabs(data, example, state) : []),
    { key: "layout", name: "Layout", node: h("div", {}, explorer.node, banks.node) },
    ...(data.mma.length ? [{ key: "mma", name: "Tiled mma", node: mma.node }] : []),
    { key: "about", name: "About", node: about(data) },
  ];
  document.getElementById("page").replaceChildren(...tabPanels(tabs, state));
  followTheme(document.getElementById("theme"), () => [explorer.subject && explorer.paint(), mma.refresh(), banks.refresh(), tabs.forEach((tab) => tab.repaint?.())]);
  mma.refresh();
}

/** Tabs as WAI-ARIA has them: arrow keys move between them, one panel is shown. */
function tabPanels(tabs, state) {
  const buttons = tabs.map(({ key, name }) => h("button", { type: "button", role: "tab", id: `tab-${key}`, "aria-controls": `panel-${key}`, onclick: () => state.set({ v: key }) }, name));
  const panels = tabs.map(({ key, node }) => h("section", { role: "tabpanel", id: `panel-${key}`, "aria-labelledby": `tab-${key}` }, node));
  const show = () => {
    const at = Math.max(0, tabs.findIndex(({ key }) => key === state.get("v")));
    tabs.forEach((tab, k) => {
      buttons[k].setAttribute("aria-selected", String(k === at));
      buttons[k].tabIndex = k === at ? 0 : -1;
      panels[k].hidden = k !== at;
      if (k === at) tab.shown?.();
    });
  };
  const list = h("div", { role: "tablist", class: "tabs", "aria-label": "Views", onkeydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (buttons.indexOf(document.activeElement) + step + tabs.length) % tabs.length;
    state.set({ v: tabs[next].key });
    buttons[next].focus();
  } }, buttons);
  state.listen((changed) => changed.has("v") && show());
  show();
  return [list, ...panels];
}

/** The button says what it does; canvases are drawn anew after it, and after the system's own change. */
function followTheme(button, repaint) {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const name = () => {
    button.textContent = isDark() ? "Switch to light" : "Switch to dark";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
    repaint();
  });
  system.addEventListener("change", () => {
    if (root.dataset.theme) return; // the button has decided
    name();
    repaint();
  });
  name();
  button.hidden = false;
}

function about(data) {
  const specs = data.specs.length ? [h("h3", {}, "Specs in this folder"), h("ul", { class: "specs" }, data.specs.map((path) => h("li", {}, h("code", {}, `tilegen view ${path}`))))] : [];
  return h("div", { class: "about" }, h("h2", {}, "About this page"),
    h("p", {}, `tilegen ${data.version} wrote it. It needs no network: the page itself computes layouts, banks and wavefronts by the rules of tilegen.layouts and tilegen.access; all else is data that Python wrote.`),
    h("p", {}, "What is shown stands in the URL: a copied link shows the same. Tab moves between controls, arrow keys move in a grid, Home and End go to the ends of a row, Ctrl with them to the first and last cell."),
    h("p", {}, "A wavefront serves one word of each bank. A phase is the lanes that are served together: 32 at up to 4 bytes a lane, 16 at 8, 8 at 16; ldmatrix takes the 8 rows of each matrix. It takes as many wavefronts as the fullest bank has different words."),
    ...specs);
}

start();
