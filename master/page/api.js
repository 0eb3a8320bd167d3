// Requests to the node that served this page; any node forwards to the job's master.

import { askToken } from "./dialogs.js";

const TOKEN = "elfstream-token", LOOK_MS = 2000;

/** A refused request: the problem details of RFC 9457. Status 0: no node answered. */
export class Problem extends Error {
  constructor(status, details) {
    super(details.detail || details.title || `status ${status}`);
    this.status = status;
    this.details = details;
  }
}

let token = sessionStorage.getItem(TOKEN) ?? "";
let asking = null, declined = false;

/** Asks the user for the token, once for all requests that need it; `used` is the one that was refused. */
function askOnce(used) {
  asking ??= askToken(used !== "").then((given) => {
    token = given;
    declined = !given;
    sessionStorage.setItem(TOKEN, token);
    asking = null;
  });
  return asking;
}

export const hasToken = () => token !== "";

/** Lets the next request ask for a token again. */
export function askAgain() {
  declined = false;
}

async function open(method, path, options = {}) {
  for (;;) {
    const used = token;
    const headers = used ? { Authorization: `Bearer ${used}`, ...options.headers } : options.headers;
    let answer;
    try {
      answer = await fetch(path, { method, ...options, headers });
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw new Problem(0, { detail: "No node answers at this address. Trying again." });
    }
    if (answer.status !== 401) return answer;
    if (used === token && !declined) await askOnce(used);
    if (declined) throw new Problem(401, { detail: "This fleet asks for a token." });
  }
}

/** Numbers that JavaScript cannot hold stay whole, where the browser tells their digits. */
const exact = (_, value, context) =>
  (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value);

/** {body, etag} of a request that succeeded; throws Problem. */
export async function call(method, path, body = undefined, more = {}) {
  const options = { headers: { ...more } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] ??= "application/json";
  }
  const answer = await open(method, path, options);
  let found = {};
  try {
    const text = await answer.text();
    found = text ? JSON.parse(text, exact) : {};
  } catch {
    found = { title: `the answer (status ${answer.status}) is no JSON` };
    if (answer.ok) throw new Problem(0, found);
  }
  if (!answer.ok) throw new Problem(answer.status, found);
  return { body: found, etag: answer.headers.get("ETag") };
}

export const get = async (path) => (await call("GET", path)).body;

/** Calls `look` now and then, while the page is seen; `failed(problem)` when it throws. Returns what ends it. */
export function polled(look, failed) {
  let over = false, timer = 0;
  (async function again() {
    try {
      if (!document.hidden) await look();
    } catch (problem) {
      if (!over) failed(problem);
    }
    if (!over) timer = setTimeout(again, LOOK_MS);
  })();
  return () => { over = true; clearTimeout(timer); };
}

/**
 * Server-sent events of a job's results, resumed by their ids for ever until `stop()` of the returned object.
 * `said(state)` is "live" or a sentence about what is wrong.
 */
export function follow(path, taken, said, lastId = "") {
  const stopped = new AbortController();
  (async () => {
    for (let pause = 250; !stopped.signal.aborted; pause = Math.min(pause * 2, 5000)) {
      try {
        const more = lastId ? { "Last-Event-ID": lastId } : {};
        const answer = await open("GET", path, {
          signal: stopped.signal, headers: { Accept: "text/event-stream", ...more },
        });
        if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => ({})));
        said("live");
        for await (const event of events(answer.body)) {
          pause = 250;
          if (event.id) lastId = event.id;
          if (event.data) taken(JSON.parse(event.data, exact), event.type);
        }
        said("the stream ended; asking again");
      } catch (problem) {
        if (stopped.signal.aborted) return;
        said(problem instanceof Problem && problem.status ? problem.message : "no connection; trying again");
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  })();
  return { stop: () => stopped.abort() };
}

async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value.replaceAll("\r\n", "\n");
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      yield parsed(text.slice(0, end));
      text = text.slice(end + 2);
    }
  }
}

function parsed(block) {
  const event = { type: "message", id: "", data: "" };
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    const field = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (field === "data") event.data += (event.data ? "\n" : "") + value;
    else if (field === "id") event.id = value;
    else if (field === "event") event.type = value;
  }
  return event;
}
