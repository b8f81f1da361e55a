// The upload of a dataset. By XMLHttpRequest, as fetch does not say how much was sent.

import { Refused } from "./service.js";
import { key } from "./session.js";

/**
 * Create a dataset, and return its description.
 * @param {{body: Blob, type: string, models: string[]}} upload as task-file.js makes it.
 * @param {(share: number) => void} onProgress called with the share that was sent, in [0, 1].
 */
export function uploadDataset(name, { body, type, models }, onProgress) {
  const request = new XMLHttpRequest();
  const query = new URLSearchParams(models.map((model) => ["reference_model", model]));
  const address = `datasets/${encodeURIComponent(name)}`;
  request.open("PUT", models.length ? `${address}?${query}` : address);
  request.setRequestHeader("Content-Type", type);
  if (key()) request.setRequestHeader("Authorization", `Bearer ${key()}`);
  request.responseType = "json";
  request.upload.addEventListener("progress", ({ loaded, total }) => onProgress(total ? loaded / total : 0));
  return new Promise((resolve, reject) => {
    request.addEventListener("load", () => {
      if (request.status < 400) resolve(request.response);
      else reject(new Refused(request.status, request.response ?? {}));
    });
    request.addEventListener("error", () =>
      reject(new Error("The connection was lost. Nothing was created; try again.")),
    );
    request.send(body);
  });
}
