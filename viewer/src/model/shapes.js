/** Shapes and elements as a person writes them: `8, 64`, `8 x 64`, `(8, 64)` or `8 64`. */
import { LayoutError } from "./errors.js";
import { flatten, product } from "./layouts.js";
import { count } from "./spelling.js";

const WORD = /\s*(?:(?<number>\d+)|(?<sign>[-+]\d+|[^\s\d,x×()[\]]+|[,x×()[\]]))/y;
const CLOSES = { "(": ")", "[": "]" };
const LIMIT = 2 ** 31;

export const sayShape = (shape) => shape.join(" x ");

/** The extents of a shape's text. Throws LayoutError with the place of what is no shape. */
export function readShape(text) {
  const numbers = readNumbers(text, "an extent", "a shape is written as 8, 64");
  const none = numbers.find(({ value }) => value < 1);
  if (none) throw new LayoutError("an extent is at least 1", none.span);
  const shape = numbers.map(({ value }) => value);
  if (product(shape) >= LIMIT) throw new LayoutError("the page counts below 2 ** 31", [0, text.length]);
  return shape;
}

/** The number, row-major, of the element that a text names. Throws LayoutError where the shape has no such element. */
export function readElement(text, shape) {
  const numbers = readNumbers(text, "a coordinate", `an element of ${sayShape(shape)} is written as ${shape.map((n) => n - 1).join(", ")}`);
  if (numbers.length !== shape.length) {
    throw new LayoutError(`${count(numbers.length, "coordinate")}, but the shape ${sayShape(shape)} has ${count(shape.length, "dimension")}`, [0, text.length]);
  }
  const outside = numbers.findIndex(({ value }, d) => value >= shape[d]);
  if (outside >= 0) {
    const { span } = numbers[outside];
    throw new LayoutError(`no such element: the shape is ${sayShape(shape)}, so coordinate ${outside} is 0 to ${shape[outside] - 1}`, span);
  }
  return flatten(numbers.map(({ value }) => value), shape);
}

/** The number of one of ``many`` things, such as a thread. Throws LayoutError where there is none of that number. */
export function readOne(text, many, thing) {
  const [{ value, span }, second] = readNumbers(text, `the number of a ${thing}`, `${thing}s are 0 to ${many - 1}`);
  if (second) throw new LayoutError(`one ${thing}, not several`, second.span);
  if (value >= many) throw new LayoutError(`there is no ${thing} ${value}: ${thing}s are 0 to ${many - 1}`, span);
  return value;
}

/** [{value, span}]: numbers between commas, `x` or blanks, perhaps in brackets; a comma may end them. */
function readNumbers(text, what, hint) {
  const words = splitWords(text);
  const numbers = [];
  let at = 0;
  const refuse = (word) => {
    const found = word.text ? `'${word.text}'` : "the end";
    return new LayoutError(`expected ${what}, found ${found}`, word.span, hint);
  };
  const closer = CLOSES[words[at].text] ?? "";
  if (closer) at += 1;
  const number = () => {
    const word = words[at];
    if (!word.isNumber) throw refuse(word);
    at += 1;
    const value = Number(word.text);
    if (value >= LIMIT) throw new LayoutError("the page counts below 2 ** 31", word.span);
    numbers.push({ value, span: word.span });
  };
  number();
  while (words[at].text !== closer) {
    const { text: separator } = words[at];
    if (separator === "," || separator === "x" || separator === "×") at += 1;
    if (separator === "," && words[at].text === closer) break;
    if (closer && !words[at].text) throw new LayoutError(`expected '${closer}', found the end`, words[at].span, hint);
    number();
  }
  if (closer) at += 1;
  if (words[at].text) throw new LayoutError(`'${words[at].text}' after the numbers`, words[at].span, hint);
  return numbers;
}

function splitWords(text) {
  const words = [];
  let at = 0;
  while (text.slice(at).trim()) {
    WORD.lastIndex = at;
    const { groups } = WORD.exec(text);
    const word = groups.number ?? groups.sign;
    at = WORD.lastIndex;
    words.push({ text: word, isNumber: groups.number !== undefined, span: [at - word.length, at] });
  }
  return [...words, { text: "", isNumber: false, span: [text.length, text.length + 1] }];
}
