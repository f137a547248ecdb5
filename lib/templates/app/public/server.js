// Requests to the server, with its token.
//
// `npm start` prints a link to this page with a code (`#code=…`) that is exchanged once for the token. The token is kept for the tab, under the name that the studio
// uses too. `EventSource` cannot send a token, so the events are read with `fetch`.

const tokenKey = "everturn-token";

/** Requests wait for it: a message that is sent while the code is exchanged needs the token. */
let loggingIn = Promise.resolve();

/** Exchanges the code of the link for the token, and removes the code from the address bar. */
export function logIn() {
  loggingIn = exchangeCode();
  return loggingIn;
}

async function exchangeCode() {
  const code = /^#code=([\w.-]+)$/.exec(location.hash)?.[1];
  if (code === undefined) return;
  history.replaceState(null, "", location.pathname);
  const response = await fetch("/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  const answer = await response.json();
  if (response.ok) sessionStorage.setItem(tokenKey, answer.token);
  else throw new Error("The link was used before, or has expired. The next start of the server prints another.");
}

async function authorization() {
  await loggingIn.catch(() => undefined);
  const token = sessionStorage.getItem(tokenKey);
  return token === null ? {} : { authorization: `Bearer ${token}` };
}

/** Sends a request and returns its answer. Throws what the server says about an error; `cause` has its details. */
export async function call(method, path, body) {
  const response = await fetch(path, {
    method,
    headers: { "content-type": "application/json", ...(await authorization()) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = await response.json();
  if (response.status === 401) throw new Error("Open the link that the server printed when it started.");
  if (!response.ok) {
    throw new Error(answer.error?.message ?? `${method} ${path}: ${response.status}`, { cause: answer.error });
  }
  return answer;
}

/** Passes the data of every event to `onEvent`. After a lost connection the stream is continued after the last event. Returns a function that ends it. */
export function readEvents(path, { onOpen, onEvent, onLost }) {
  const ending = new AbortController();
  const { signal } = ending;
  let lastId = null;
  const readOnce = async () => {
    const after = lastId === null ? {} : { "last-event-id": lastId };
    const response = await fetch(path, {
      headers: { accept: "text/event-stream", ...(await authorization()), ...after },
      signal,
    });
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    onOpen();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      // An event ends with an empty line.
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const fieldOf = (name) =>
          event
            .split("\n")
            .filter((line) => line.startsWith(`${name}: `))
            .map((line) => line.slice(name.length + 2));
        lastId = fieldOf("id")[0] ?? lastId;
        const data = fieldOf("data");
        if (data.length > 0) onEvent(JSON.parse(data.join("\n")));
      }
    }
  };
  const read = async () => {
    while (!signal.aborted) {
      await readOnce().catch(() => undefined);
      if (signal.aborted) return;
      onLost();
      await new Promise((resolve) => {
        setTimeout(resolve, 1000);
      });
    }
  };
  void read();
  return () => ending.abort();
}
