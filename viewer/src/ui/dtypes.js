/** Element types and their bits: those of tilegen/dtypes.py, and one of 4 bits, which layouts place but no kernel has. */
export const DTYPES = [
  ["complex128", 128], ["complex64", 64], ["float64", 64], ["int64", 64], ["uint64", 64], ["float32", 32], ["int32", 32], ["uint32", 32],
  ["float16", 16], ["bfloat16", 16], ["int16", 16], ["uint16", 16], ["float8_e4m3fn", 8], ["float8_e5m2", 8], ["float8_e8m0fnu", 8], ["int8", 8], ["uint8", 8], ["bool", 8],
  ["float4_e2m1", 4],
];
const BITS = Object.fromEntries(DTYPES);
export const bitsOf = (dtype) => BITS[dtype] ?? 16;
