// The chat. The server keeps the conversation: a reload, a restart of the server or a lost connection loses nothing.

import type { agent } from "../src/agent.ts";
import type { ChatTransport, UIMessage } from "ai";
import type { UiData, UiMetadata, UiTools } from "everturn/react";

import { useChat } from "@ai-sdk/react";
import { getToolName, isStaticToolUIPart, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { chatTransport } from "everturn/react";
import Markdown from "react-markdown";

import { Approval, Question } from "./forms.tsx";
import { server, studio } from "./server.ts";

export type Message = UIMessage<UiMetadata, UiData, UiTools<typeof agent>>;
type Part = Message["parts"][number];

const transport: ChatTransport<Message> = chatTransport(server);

export function Chat({ id, loaded }: { id: string; loaded: Message[] }) {
  const chat = useChat<Message>({
    id,
    messages: loaded,
    transport,
    resume: true,
    onFinish: () => {
      void chat.resumeStream(); // Waits for what other people do next.
    },
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const { messages, setMessages, status, error, sendMessage, addToolApprovalResponse, stop } = chat;
  const isBusy = status === "submitted" || status === "streaming";
  const newest = messages.at(-1)?.parts ?? [];
  const needsApproval = newest.some((part) => isStaticToolUIPart(part) && part.state === "approval-requested");
  const isAsked = (part: Part | undefined) => part?.type === "data-question" && part === newest.at(-1);
  const isQuestionOpen = isAsked(newest.at(-1)) && !isBusy && !needsApproval;

  /** The next message is the answer to the open question. */
  const send = (text: string) => void sendMessage({ text });

  /** Edited arguments are those of the part: the server validates them, and runs the call with them. */
  function decide(id: string, edited: Part, approved: boolean): void {
    const isCall = (part: Part) =>
      "toolCallId" in edited && "toolCallId" in part && part.toolCallId === edited.toolCallId;
    const edit = (part: Part) => (isCall(part) ? edited : part);
    setMessages((all) => all.map((message) => ({ ...message, parts: message.parts.map(edit) })));
    void addToolApprovalResponse({ id, approved });
  }

  function show(part: Part, key: number) {
    if (part.type === "text") return <Markdown key={key}>{part.text}</Markdown>;
    if (part.type === "data-question") {
      const { question, opts } = part.data;
      if (!isQuestionOpen || !isAsked(part)) return <strong key={key}>{question}</strong>;
      return <Question key={key} question={question} choices={opts["choices"]} onAnswer={send} />;
    }
    if (!isStaticToolUIPart(part)) return null;
    const name = getToolName(part);
    switch (part.state) {
      case "approval-requested": {
        const { input, approval } = part;
        const onDecide = (json: string, approved: boolean) =>
          decide(approval.id, { ...part, input: JSON.parse(json) }, approved);
        return <Approval key={key} name={name} input={input} onDecide={onDecide} />;
      }
      case "output-available":
        return <pre key={key}>{part.output}</pre>;
      case "output-error":
        return <pre key={key}>{part.errorText}</pre>;
      default:
        return <pre key={key}>{`${name}: ${part.state}`}</pre>;
    }
  }

  return (
    <main>
      <header>
        <a href="/">New chat</a> <a href={studio}>Studio</a>
      </header>
      {messages.map((message) => (
        <article key={message.id} className={message.role}>
          {message.parts.map(show)}
        </article>
      ))}
      {error !== undefined && <p role="alert">{error.message}</p>}
      {!isQuestionOpen && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const text = String(new FormData(event.currentTarget).get("text")).trim();
            if (text === "" || isBusy) return;
            event.currentTarget.reset();
            send(text);
          }}
        >
          <input name="text" autoFocus placeholder="Message" />
          {isBusy && (
            <button type="button" onClick={() => void stop()}>
              Stop
            </button>
          )}
        </form>
      )}
    </main>
  );
}
