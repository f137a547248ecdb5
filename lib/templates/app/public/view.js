// What the page shows: messages, and the calls that wait for a person with all that an approval runs.

import { approvalText, callPath, visibleText } from "everturn/client";

const [messagesElement, thread, approvals, statusLine] = ["#messages", "#thread", "#approvals", "#status"].map((id) =>
  document.querySelector(id),
);

/** Shows a snapshot of the conversation. `decide` gets a call and the decision about it. */
export function show({ connection, session, messages, turn, pending }, failure, decide) {
  const { status, metadata = {}, pendingToolCalls = [] } = session?.session ?? {};
  const isAtEnd = messagesElement.scrollTop + messagesElement.clientHeight >= messagesElement.scrollHeight - 8;
  thread.replaceChildren(...messageElements(messages), ...approvedCalls(pendingToolCalls, turn).map(approvedCall));
  const draft = turn?.blocks.map(({ type, text }) => (type === "text" ? text : "")).join("") ?? "";
  if (draft !== "") thread.append(bubble("assistant", draft));
  const failed = failure || turn?.failure?.message || metadata.error?.message;
  if (failed) thread.append(bubble("failure", failed));
  const waiting = pending.filter(({ reason }) => reason === "approval" || reason === "outcome_unknown");
  const added = showCards(waiting, decide);
  const running = [...(turn?.calls.values() ?? [])].find(({ state }) => state === "running");
  const activity = running ? `running ${running.name} …` : turn && draft === "" ? "thinking …" : "";
  const waits = waiting.length > 0 ? "waits for your approval" : activity || (status === "error" ? "failed" : "");
  statusLine.textContent = connection === "loading" || connection === "reconnecting" ? "connecting …" : waits;
  // A new call is read from its beginning; otherwise the page follows the text if its end was visible.
  if (added !== undefined) added.scrollIntoView({ block: "start" });
  else if (isAtEnd) messagesElement.scrollTop = messagesElement.scrollHeight;
}

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

/** A call with all its arguments, as text. */
function callElement(kind, title, text, note = "") {
  const element = bubble(kind, title);
  const details = document.createElement("pre");
  details.textContent = visibleText(text);
  element.append(details, note);
  return element;
}

/** A call that waits for a person. `decide` gets the decision. */
function card(pending, decide) {
  const question = pending.reason === "approval" ? "May it run?" : "It may have run already. Run it again?";
  const element = callElement("approval", question, approvalText(pending));
  const decided = async (type) => {
    const buttons = element.querySelectorAll("button");
    for (const other of buttons) other.disabled = true;
    await decide(pending, { type });
    for (const other of buttons) other.disabled = false;
  };
  // The name again: the beginning of a long call is not on the screen any more.
  const approve = button(`Approve ${visibleText(pending.shown.name)}`, () => decided("approve"));
  element.append(
    approve,
    button("Deny", () => decided("deny")),
  );
  return element;
}

/** The cards of the calls that wait, by digest. A card stays in the page as it is until its call is decided or has changed, so it keeps the focus. */
const cards = new Map();

/** Adds and removes cards. Returns the first new one. */
function showCards(waiting, decide) {
  for (const [digest, element] of cards) {
    if (waiting.some((pending) => pending.digest === digest)) continue;
    element.remove();
    cards.delete(digest);
  }
  const added = waiting.filter(({ digest }) => !cards.has(digest));
  for (const pending of added) cards.set(pending.digest, card(pending, decide));
  approvals.append(...added.map(({ digest }) => cards.get(digest)));
  return cards.get(added[0]?.digest);
}

/** The calls that were approved and have no result yet. */
function approvedCalls(pendingToolCalls, turn) {
  const isAnswered = (id) => turn?.messages.some(({ toolCallId }) => toolCallId === id);
  return pendingToolCalls.filter(
    ({ id, decision }) =>
      (decision?.type === "approve" || decision?.answer?.type === "approve") && isAnswered(id) !== true,
  );
}

/** A call that was approved, with the arguments that run. */
function approvedCall({ shown, decision }) {
  const args = decision.arguments ?? shown.arguments;
  return callElement("approved", `${callPath(shown)}\napproved`, JSON.stringify(args, null, 2));
}

function textOf(content) {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("");
}

/** The elements of messages. A result is shown with the arguments that the tool ran with. */
function messageElements(messages) {
  const calls = new Map();
  return messages.flatMap((message) => {
    for (const toolCall of message.toolCalls ?? []) calls.set(toolCall.id, toolCall);
    const text = textOf(message.content);
    if (message.role === "tool") {
      const { name = "tool", arguments: args = {} } = calls.get(message.toolCallId) ?? {};
      return [callElement("tool", visibleText(name), JSON.stringify(message.ranArguments ?? args, null, 2), text)];
    }
    return text === "" || message.role === "system" ? [] : [bubble(message.role, text)];
  });
}
