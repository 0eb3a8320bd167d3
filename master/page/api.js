// Requests to the node that served this page; any node forwards to the job's master.

const TOKEN = "elfstream-token";

/** A refused request: the problem details of RFC 9457. */
export class Problem extends Error {
  constructor(status, details) {
    super(details.detail || details.title || `status ${status}`);
    this.status = status;
    this.details = details;
  }
}

function headers(more = {}) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}`, ...more } : more;
}

/** Asks the user for the token, once for all requests that need it. */
let asking = null;
function askToken() {
  asking ??= new Promise((done) => {
    const dialog = document.getElementById("ask-token");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(TOKEN, document.getElementById("token").value);
      asking = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

async function open(method, path, options = {}) {
  for (;;) {
    const answer = await fetch(path, { method, ...options, headers: headers(options.headers) });
    if (answer.status !== 401) return answer;
    await askToken();
  }
}

/** {body, etag} of a request that succeeded; throws Problem. */
export async function call(method, path, body = undefined, more = {}) {
  const options = { headers: { ...more } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] ??= "application/json";
  }
  const answer = await open(method, path, options);
  const text = await answer.text();
  let found = {};
  try {
    found = text ? JSON.parse(text) : {};
  } catch {
    found = { title: text.slice(0, 200) };
  }
  if (!answer.ok) throw new Problem(answer.status, found);
  return { body: found, etag: answer.headers.get("ETag") };
}

export const get = async (path) => (await call("GET", path)).body;

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
          if (event.data) taken(JSON.parse(event.data), event.type);
        }
        said("the stream ended; asking again");
      } catch (problem) {
        if (stopped.signal.aborted) return;
        said(problem instanceof Problem ? problem.message : "no connection; trying again");
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
