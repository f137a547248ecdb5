// The chat. The server keeps the conversation: a reload, a restart of the server or a lost connection loses nothing.

import type { agent } from "../src/agent.ts";
import type { ChatTransport, UIMessage } from "ai";
import type { UiData, UiMetadata, UiTools } from "everturn/react";

import { useChat } from "@ai-sdk/react";
import { lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { chatTransport } from "everturn/react";
import { useState } from "react";
import Markdown from "react-markdown";

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
  const question = messages.at(-1)?.parts.findLast((part) => part.type === "data-question");

  /** Edited arguments are those of the part; the server validates them and runs the call with them. */
  function decide(approval: string, toolCallId: string, input: unknown, approved: boolean): void {
    const edited = (part: Part) =>
      "toolCallId" in part && part.toolCallId === toolCallId ? ({ ...part, input } as Part) : part;
    setMessages((all) => all.map((message) => ({ ...message, parts: message.parts.map(edited) })));
    void addToolApprovalResponse({ id: approval, approved });
  }

  return (
    <main>
      <header>
        <a href="/">New chat</a> <a href={studio}>Studio</a>
      </header>
      {messages.map((message) => (
        <article key={message.id} className={message.role}>
          {message.parts.map((part, index) => {
            if (part.type === "text") return <Markdown key={index}>{part.text}</Markdown>;
            if (part.type === "data-question") return <strong key={index}>{part.data.question}</strong>;
            if (part.type !== "tool-book_table") return null;
            if (part.state === "output-available") return <pre key={index}>{part.output}</pre>;
            if (part.state === "output-error") return <pre key={index}>{part.errorText}</pre>;
            if (part.state !== "approval-requested") return <pre key={index}>book_table: {part.state}</pre>;
            const { approval, toolCallId, input } = part;
            const onDecide = (next: unknown, approved: boolean) => decide(approval.id, toolCallId, next, approved);
            return <Approval key={index} name="book_table" input={input} onDecide={onDecide} />;
          })}
        </article>
      ))}
      {error !== undefined && <p role="alert">{error.message}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const text = String(new FormData(event.currentTarget).get("text")).trim();
          if (text === "" || isBusy) return;
          event.currentTarget.reset();
          void sendMessage({ text });
        }}
      >
        {question?.type === "data-question" &&
          choicesOf(question.data.opts["choices"]).map((choice) => (
            <button key={choice} type="button" onClick={() => void sendMessage({ text: choice })}>
              {choice}
            </button>
          ))}
        <input name="text" autoFocus placeholder={question === undefined ? "Message" : "Your answer"} />
        {isBusy && (
          <button type="button" onClick={() => void stop()}>
            Stop
          </button>
        )}
      </form>
    </main>
  );
}

const choicesOf = (choices: unknown): string[] => (Array.isArray(choices) ? choices.map(String) : []);

type Decide = (input: unknown, approved: boolean) => void;

/** A call that waits for an approval, with all its arguments, which can be edited. */
function Approval({ name, input, onDecide }: { name: string; input: unknown; onDecide: Decide }) {
  const [text, setText] = useState(JSON.stringify(input, null, 2));
  const edited = parse(text);
  return (
    <fieldset className="approval">
      <legend>May {name} run with these arguments?</legend>
      <textarea rows={text.split("\n").length} value={text} onChange={(event) => setText(event.target.value)} />
      <button disabled={edited === undefined} onClick={() => onDecide(edited, true)}>
        Approve
      </button>
      <button onClick={() => onDecide(input, false)}>Deny</button>
    </fieldset>
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
