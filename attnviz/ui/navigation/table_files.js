/**
 * Tables are downloaded as all other files are. Streamlit's tables ask where to save a file if the browser can do so;
 * there is no answer in a frame, in an automated browser, or where policies forbid it.
 *
 * @param {Window} window
 */
export function downloadTablesAsFiles(window) {
  Reflect.deleteProperty(window, "showSaveFilePicker");
}
