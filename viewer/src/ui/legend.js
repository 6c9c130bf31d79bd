/** What colours mean: a swatch and a text for each. Backgrounds are of the theme, so that they follow light and dark. */
import { h } from "./dom.js";

export const swatch = (background, className = "") => h("span", { class: `swatch ${className}`.trim(), style: background ? `background:${background}` : null, "aria-hidden": "true" });

/** A list of [background, text, class of the swatch]; a background is CSS, null where the class has one. */
export const keysOf = (label, entries) => h("ul", { class: "keys", "aria-label": label }, keyItems(entries));

export const keyItems = (entries) => entries.map(([background, text, className]) => h("li", {}, swatch(background, className), text));
