// Talking to the server: JSON, and server-sent events of a POST.

const KEY = "rldf-key";

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
};

function headers(more = {}) {
  return key.get() ? { ...more, authorization: `Bearer ${key.get()}` } : more;
}

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function checked(reply) {
  if (reply.ok) return reply;
  const body = await reply.json().catch(() => null);
  throw new Refused(reply.status, body?.error?.message ?? `the server said ${reply.status}`);
}

export async function get(path) {
  return (await checked(await fetch(path, { headers: headers() }))).json();
}

export async function text(path) {
  return (await checked(await fetch(path, { headers: headers() }))).text();
}

function posted(path, body, signal) {
  return fetch(path, {
    method: "POST",
    headers: headers({ "content-type": "application/json" }),
    body: JSON.stringify(body),
    signal,
  }).then(checked);
}

export async function post(path, body, signal) {
  return (await posted(path, body, signal)).json();
}

// Yields {event, data} as they arrive; data is parsed unless it is [DONE].
export async function* stream(path, body, signal) {
  const reply = await posted(path, body, signal);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const found = { event: "message", data: "" };
      for (const line of block.split("\n")) {
        const colon = line.indexOf(": ");
        if (colon > 0) found[line.slice(0, colon)] = line.slice(colon + 2);
      }
      if (found.data && found.data !== "[DONE]") yield { ...found, data: JSON.parse(found.data) };
    }
  }
}
