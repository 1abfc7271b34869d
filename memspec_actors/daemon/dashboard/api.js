// Talk to the daemon, with its key if it asks for one.

const KEY = "memspec-key";

function headers(more = {}) {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}`, ...more } : more;
}

/** Ask for the key until the dialog is answered. */
function askForKey() {
  const dialog = document.getElementById("login");
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, document.getElementById("key").value);
      resolve();
    }, { once: true });
  });
}

/** Fetch a path; a daemon that wants its key gets it. Throws an Error with the daemon's message. */
export async function request(path, options = {}) {
  for (;;) {
    const reply = await fetch(path, { ...options, headers: headers(options.headers) });
    if (reply.ok) return reply;
    if (reply.status !== 401) throw new Error(await messageOf(reply));
    await askForKey();
  }
}

async function messageOf(reply) {
  try {
    return (await reply.json()).error.message;
  } catch {
    return `the daemon answered ${reply.status}`;
  }
}

/** Yield [id, data] of each server-sent event of a reply. */
export async function* serverSent(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const lines = event.split("\n");
      const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (field("data") !== undefined) yield [field("id"), field("data")];
    }
  }
}
