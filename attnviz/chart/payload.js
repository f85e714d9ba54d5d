// The format of the data: a header of JSON, then the arrays it mentions as raw bytes, each at a multiple of eight.

const TYPES = { f2: Uint16Array, f4: Float32Array, f8: Float64Array, i4: Int32Array, u1: Uint8Array };

/**
 * @param {Uint8Array} bytes
 * @returns {any} a header, as types.d.ts describes it, or what Python has packed in its place
 */
export function unpack(bytes) {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  /** @type {{ owner: Record<string, unknown>, key: string, dtype: keyof typeof TYPES, shape: number[] }[]} */
  const arrays = [];
  /** @param {any} value */
  const find = (value) => {
    if (!value || typeof value !== "object") return;
    for (const [key, inner] of Object.entries(value)) {
      if (inner?.array !== undefined && inner.dtype) arrays[inner.array] = { owner: value, key, ...inner };
      else find(inner);
    }
  };
  find(header);
  let offset = 8 + length;
  for (const { owner, key, dtype, shape } of arrays) {
    const size = shape.reduce((product, side) => product * side, 1) * TYPES[dtype].BYTES_PER_ELEMENT;
    const stored = new TYPES[dtype](bytes.slice(offset, offset + size).buffer);
    const flat = dtype === "f2" ? Float32Array.from(stored, float16) : stored;
    const row = (/** @type {number} */ i) => flat.subarray(i * shape[1], (i + 1) * shape[1]);
    owner[key] = shape.length < 2 ? flat : Array.from({ length: shape[0] }, (_, i) => row(i));
    offset += Math.ceil(size / 8) * 8;
  }
  return header;
}

/** @param {string} text */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/**
 * @param {number} bits of a number of half precision
 * @returns {number}
 */
export function float16(bits) {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 0x3ff];
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

/**
 * Replaces arrays and objects by those before that are equal: plotly draws only what is a new object.
 * @template T
 * @param {T} before
 * @param {T} after
 * @returns {T}
 */
export function keepEqual(before, after) {
  if (!before || !after || typeof before !== "object" || typeof after !== "object") return after;
  const [old, next] = /** @type {any[]} */ ([before, after]);
  if (ArrayBuffer.isView(next)) {
    const values = /** @type {Float32Array} */ (next);
    return old.length === values.length && values.every((value, i) => Object.is(value, old[i])) ? before : after;
  }
  const names = Object.keys(next);
  for (const name of names) next[name] = keepEqual(old[name], next[name]);
  const same = Array.isArray(old) === Array.isArray(next) && Object.keys(old).length === names.length;
  return same && names.every((name) => old[name] === next[name]) ? before : after;
}
