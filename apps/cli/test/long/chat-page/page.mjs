// The page of chat-page.ts: one chat or conversation, as an application with React has it. The query says which one:
// `useChat` with the transport of this library, `useChat` with that of the AI SDK, or `useConversation`.

import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import { messageText } from "everturn";
import { createClient } from "everturn/client";
import { chatTransport, useConversation } from "everturn/react";
import { createElement, StrictMode, useEffect } from "react";
import { createRoot } from "react-dom/client";

const parameters = new URLSearchParams(location.search);
const id = parameters.get("id") ?? "chat";
const client = createClient({ url: "/" });
const transport =
  parameters.get("with") === "sdk" ? new DefaultChatTransport({ api: "/ui/chat" }) : chatTransport({ url: "/" });

/** What the test reads: the text and the status, when the text has changed, and the verb of the user. */
const shown = { text: "", status: "", changes: [], send: (_text) => undefined };
globalThis.shown = shown;

function useReport(text, status, send) {
  useEffect(() => {
    Object.assign(shown, { status, send });
    if (text === shown.text) return;
    shown.text = text;
    shown.changes.push(performance.now());
  }, [text, status, send]);
}

function Chat() {
  const { messages, sendMessage, status } = useChat({ id, transport, resume: true });
  const texts = messages.map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : "")).join(""));
  useReport(texts.join("\n"), status, (text) => void sendMessage({ text }));
  return createElement("pre", null, texts.join("\n"));
}

function Conversation() {
  const { messages, turn, connection, send } = useConversation(client, id);
  const reply = turn?.blocks.map((block) => block.text ?? "").join("") ?? "";
  const texts = [...messages.map(messageText), ...(reply === "" ? [] : [reply])];
  const status = turn === null && connection === "live" ? "ready" : connection === "live" ? "streaming" : connection;
  useReport(texts.join("\n"), status, (text) => void send(text));
  return createElement("pre", null, texts.join("\n"));
}

const Page = parameters.get("with") === "conversation" ? Conversation : Chat;
createRoot(document.body).render(createElement(StrictMode, null, createElement(Page)));
