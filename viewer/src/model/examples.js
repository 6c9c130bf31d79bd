/** A spec as a preset, which tilegen/viewing/examples.py wrote short: its buffers and accesses with names and numbers. */
const WHERE = { shared: "in shared memory", register: "in registers", tmem: "in tensor memory" };

/** What pack_numbers packed: {add: [first, ...]} or {xor: [first, ...]} have what each bit of an index adds or XORs. */
export function unpackNumbers(packed) {
  if (!packed || Array.isArray(packed)) return packed ?? [];
  const [[name, [first, ...steps]]] = Object.entries(packed);
  const found = [first];
  for (const step of steps) found.push(...found.map((value) => (name === "add" ? value + step : value ^ step)));
  return found;
}

/** {name, note, layouts, accesses}; an access on a buffer that is drawn names its preset. */
export function readExample(example) {
  const layouts = example.layouts.map((one) => ({
    key: `buffer_${one.name}`, name: `${one.name}, ${WHERE[one.scope] ?? one.scope}`, scope: one.scope, text: one.text, shape: one.shape,
    dtype: one.dtype, note: "",
  }));
  return { name: example.name, note: example.note, layouts, accesses: example.accesses.map((one, k) => readAccess(example, layouts, one, k + 1)) };
}

function readAccess(example, layouts, one, number) {
  const preset = one.space === "shared" ? layouts.find((layout) => layout.key === `buffer_${one.buffer}`) : null;
  const isWhole = one.rows !== undefined;
  const numbers = unpackNumbers(one.at);
  const text = example.ops[one.op - 1];
  const who = isWhole ? (one.kind === "tma" ? "a box that TMA moves" : `a matrix that ${one.kind} reads`) : `the first warp that takes part, ${one.where}`;
  return {
    key: `a${number}`, number, op: one.op, buffer: one.buffer, space: one.space, what: one.kind, width: one.width, rows: one.rows ?? 0,
    kind: one.kind.startsWith("cp.async") ? "st" : one.kind, // its phases in shared memory are those of a store
    offsets: isWhole ? [] : numbers, chunks: isWhole ? numbers : [], wavefronts: one.wavefronts, sectors: one.sectors, floor: one.floor,
    name: `#${number} ${one.kind} of ${one.buffer}, op ${one.op}`, label: one.where ? `${text}: ${who}` : `${text}: no thread of it is active`,
    preset: preset?.key ?? "", layout: preset ?? null,
  };
}
