// A chat over the HTTP API of `everturn serve`, without a framework.
//
// The session on the server is the only state: the page shows `GET /sessions/ID` and adds the text that arrives meanwhile. So a reload, another tab, a restart of
// the server or a lost connection loses nothing: the server continues its stream after the last event.
//
// What a person approves is what runs: a call that waits is shown with all that an approval runs (`shown`), and the decision carries its `digest`. The server refuses
// a decision about a call that has changed meanwhile.

import { call, logIn, readEvents } from "./server.js";

const messages = document.querySelector("#messages");
const threadElement = document.querySelector("#thread");
const approvals = document.querySelector("#approvals");
const form = document.querySelector("#form");
const input = document.querySelector("#input");
const statusLine = document.querySelector("#status");

let id = null;
let view = null;
/** Text of the reply that is being written, and what the turn is doing. */
let draft = "";
let activity = "";
let failure = "";
let stopFollowing = () => undefined;

// Loading the session

let isLoading = false;
let isStale = false;

/** Loads the session. Calls while a request is running cause one more request, not one each. */
async function load() {
  isStale = true;
  if (isLoading || id === null) return;
  isLoading = true;
  try {
    while (isStale) {
      isStale = false;
      view = await call("GET", `/sessions/${encodeURIComponent(id)}`);
      render();
    }
  } catch (error) {
    failure = error.message;
    render();
  } finally {
    isLoading = false;
  }
}

// Following its events

function follow() {
  stopFollowing();
  stopFollowing = readEvents(`/sessions/${encodeURIComponent(id)}/events`, {
    onOpen: render,
    onEvent: ({ event }) => handle(event),
    onLost: () => {
      statusLine.textContent = "connecting …";
    },
  });
}

function handle(event) {
  switch (event.type) {
    case "turn_started":
      failure = "";
      activity = "thinking …";
      break;
    case "message_started":
    case "step_reset": // The reply is generated again: discard what was shown of it.
      draft = "";
      break;
    case "text_delta":
      draft += event.delta;
      activity = "";
      break;
    case "tool_execution_started":
      activity = `running ${event.name} …`;
      break;
    case "error":
      failure = event.error.message;
      break;
    case "step_completed":
    case "chat_completed":
      draft = "";
      activity = event.type === "chat_completed" ? "" : activity;
      break;
    default:
      return;
  }
  if (event.type === "text_delta") render();
  else load();
}

// Showing it

function bubble(kind, text) {
  const element = document.createElement("div");
  element.className = `message ${kind}`;
  element.textContent = text;
  return element;
}

function button(label, onClick) {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = label;
  element.addEventListener("click", onClick);
  return element;
}

// As `visibleText` of everturn/model: characters that cannot be seen, or that reorder the text around them, are shown as their code points.
const invisible = /(?![\t\n])\p{Cc}|[\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\p{Cs}\u2800\uFFF9-\uFFFB]/gu;

function visible(text) {
  return text.replace(invisible, (found) => `⟨U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** What a crash while a tool runs leads to, by its replay policy. */
const replayTexts = {
  safe: "If the process stops while it runs, it runs again.",
  never: "If the process stops while it runs, it is not run again.",
  ask: "If the process stops while it runs, you are asked whether it runs again.",
};

/** The parts of a call that can change while it waits. */
const partTexts = {
  tool: "its tool",
  arguments: "its arguments",
  path: "the tools that lead to it",
  policy: "its replay policy",
  wait: "the call itself (another one waits now)",
};

function changeText({ changed }) {
  return `The decision was not accepted. Changed since it was shown: ${changed.map((part) => partTexts[part] ?? part).join(", ")}.`;
}

/** The tools that lead to a call, and its own: `summarize_mail → wire_transfer`. */
function pathOf({ parents, name }) {
  return visible([...parents, name].join(" → "));
}

/** A call with all its arguments, as text. */
function callElement(kind, title, args, note = "") {
  const element = bubble(kind, title);
  const details = document.createElement("pre");
  details.textContent = visible(typeof args === "string" ? args : JSON.stringify(args, null, 2));
  element.append(details, note);
  return element;
}

/** A tool call that waits for a person. */
function approval({ id: toolCallId, digest, shown, rawArguments, reason }) {
  const question = reason === "approval" ? "May it run?" : "It may have run already. Run it again?";
  const element = callElement(
    "approval",
    `${pathOf(shown)}\n${question}`,
    shown.arguments ?? rawArguments ?? "null",
    replayTexts[shown.replay] ?? "",
  );
  const decide = async (type) => {
    const buttons = element.querySelectorAll("button");
    for (const other of buttons) other.disabled = true;
    failure = "";
    await attempt(() => call("POST", `/sessions/${encodeURIComponent(id)}/decisions`, { toolCallId, type, digest }));
    for (const other of buttons) other.disabled = false;
    load();
  };
  element.append(
    document.createElement("br"),
    // The name again: the beginning of a long call is not on the screen any more.
    button(`Approve ${visible(shown.name)}`, () => decide("approve")),
    button("Deny", () => decide("deny")),
  );
  return element;
}

/** A call that was approved and has no result yet, with the arguments that run. */
function approvedCall({ shown, decision }) {
  return callElement("approved", `${pathOf(shown)}\napproved`, decision.arguments ?? shown.arguments);
}

function isApproved({ decision }) {
  return decision?.type === "approve" || decision?.answer?.type === "approve";
}

function textOf(content) {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("");
}

/** The elements of the thread. A result is shown with the arguments that the tool ran with. */
function threadElements(thread) {
  const calls = new Map();
  return thread.flatMap((message) => {
    for (const toolCall of message.toolCalls ?? []) calls.set(toolCall.id, toolCall);
    const text = textOf(message.content);
    if (message.role === "tool") {
      const { name = "tool", arguments: args = {} } = calls.get(message.toolCallId) ?? {};
      return [callElement("tool", visible(name), message.ranArguments ?? args, text)];
    }
    return text === "" || message.role === "system" ? [] : [bubble(message.role, text)];
  });
}

/** The cards of the calls that wait, by digest. A card stays in the page as it is until its call is decided or has changed, so it keeps the focus. */
const cards = new Map();

/** Adds and removes cards. Returns the first new one. */
function renderApprovals(waiting) {
  for (const [digest, card] of cards) {
    if (waiting.some((pending) => pending.digest === digest)) continue;
    card.remove();
    cards.delete(digest);
  }
  const added = waiting.filter(({ digest }) => !cards.has(digest));
  for (const pending of added) cards.set(pending.digest, approval(pending));
  approvals.append(...added.map(({ digest }) => cards.get(digest)));
  return cards.get(added[0]?.digest);
}

function render() {
  const { thread = { messages: [] }, pendingToolCalls = [], status = "" } = view?.session ?? {};
  const isAtEnd = messages.scrollTop + messages.clientHeight >= messages.scrollHeight - 8;
  threadElement.replaceChildren(
    ...threadElements(thread.messages),
    ...pendingToolCalls.filter(isApproved).map(approvedCall),
  );
  if (draft !== "") threadElement.append(bubble("assistant", draft));
  if (failure !== "") threadElement.append(bubble("failure", failure));
  const waiting = pendingToolCalls.filter(
    ({ reason, decision }) => decision === null && (reason === "approval" || reason === "outcome_unknown"),
  );
  const added = renderApprovals(waiting);
  statusLine.textContent =
    waiting.length > 0 ? "waits for your approval" : activity || (status === "error" ? "failed" : "");
  // A new call is read from its beginning; otherwise the page follows the text if its end was visible.
  if (added !== undefined) added.scrollIntoView({ block: "start" });
  else if (isAtEnd) messages.scrollTop = messages.scrollHeight;
}

// Sending

/** Runs a request and shows its error. Returns whether it succeeded. */
async function attempt(request) {
  try {
    await request();
    return true;
  } catch (error) {
    const changedCall = error.cause?.call;
    failure = changedCall === undefined ? error.message : changeText(changedCall);
    render();
    return false;
  }
}

async function send(text) {
  failure = "";
  if (id === null) {
    const started = await call("POST", "/sessions", { input: text });
    id = started.sessionId;
    history.replaceState(null, "", `#${id}`);
    follow();
  } else {
    const path = `/sessions/${encodeURIComponent(id)}`;
    // After a failed turn the session is made usable first.
    if (view?.session.status === "error") await call("POST", `${path}/recover`, {});
    await call("POST", `${path}/send`, { text });
  }
  load();
}

let isSending = false;

// The text stays in the field until it is sent, and text that is typed meanwhile is kept.
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = input.value;
  if (text.trim() === "" || isSending) return;
  isSending = true;
  const isSent = await attempt(() => send(text.trim()));
  isSending = false;
  if (isSent) input.value = input.value.startsWith(text) ? input.value.slice(text.length) : input.value;
});

document.querySelector("#new").addEventListener("click", () => {
  history.replaceState(null, "", location.pathname);
  location.reload();
});
addEventListener("hashchange", () => location.reload());
// Decisions of other people about one of several calls have no event.
for (const type of ["focus", "online"]) addEventListener(type, () => load());

await attempt(logIn);
id = location.hash.slice(1) || null;
if (id !== null) {
  follow();
  load();
}
