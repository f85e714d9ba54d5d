// Pictures as files.

import { _ } from "./words.js";

/**
 * @param {Blob} svg
 * @param {number} width
 * @param {number} height
 * @returns {Promise<Blob>} a PNG at twice the size
 */
export async function raster(svg, width, height) {
  const url = URL.createObjectURL(svg);
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error(_("The figure is too large.")))), "image/png"),
  );
}

/**
 * @param {Blob} blob
 * @param {string} name
 */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
