/** Bundles src/ into tilegen/viewing/page.js and page.css; with --check it only says whether they are up to date. */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const bundle = async (entry, name) => {
  const { outputFiles } = await build({
    entryPoints: [here(entry)], bundle: true, minify: true, write: false, format: "iife", target: "es2022",
    charset: "utf8", legalComments: "none",
  });
  return [here(`../tilegen/viewing/${name}`), outputFiles[0].text];
};

const files = [await bundle("src/main.js", "page.js"), await bundle("src/style.css", "page.css")];
const stale = files.filter(([path, text]) => {
  try {
    return readFileSync(path, "utf8") !== text;
  } catch {
    return true;
  }
});
if (process.argv.includes("--check")) {
  if (stale.length) console.error(`stale: ${stale.map(([path]) => path).join(", ")}; npm run build writes them anew`);
  process.exitCode = stale.length ? 1 : 0;
} else {
  stale.forEach(([path, text]) => writeFileSync(path, text));
  console.log(`${files.map(([, text]) => text.length).join(" + ")} characters, ${stale.length} files written`);
}
