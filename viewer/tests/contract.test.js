/** The page computes what Python computed: TILEGEN_CASES names a file that tests/viewing/cases.py wrote. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { answerAccess, answerLayout } from "../src/model/answers.js";

const path = process.env.TILEGEN_CASES;
const skip = path ? false : "TILEGEN_CASES names no file: tests/viewing/test_contract.py runs this with one";
const cases = path ? JSON.parse(readFileSync(path, "utf8")) : { layouts: [], accesses: [] };

test("layouts", { skip }, () => {
  for (const one of cases.layouts) assert.deepEqual(answerLayout(one), one.answer, JSON.stringify(one.text));
});

test("accesses", { skip }, () => {
  for (const one of cases.accesses) assert.deepEqual(answerAccess(one), one.answer, JSON.stringify(one));
});
