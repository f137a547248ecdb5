// The messages of a replay file: replies as Markdown, others as plain text. While the playhead is set, only what had
// arrived at that moment is shown.

import type { ConversationState } from "../timeline/state-at.ts";
import type { Message } from "everturn";
import type { ReactNode } from "react";

import { useVirtualizer } from "@tanstack/react-virtual";
import { messageText } from "everturn";
import { useEffect, useRef } from "react";

import { count } from "../parts/format.ts";
import { beginning, visibleName } from "../parts/text.ts";
import { Markdown } from "../text/markdown.tsx";
import "../styles/conversation.css";

/** Characters of a message that are drawn. */
const maxLength = 20_000;

export function ReplayMessages({
  messages,
  base,
  state,
}: {
  readonly messages: readonly Message[];
  /** The index of the first message of the turn. */
  readonly base: number;
  /** The moment of the playhead; `null`: the present. */
  readonly state: ConversationState | null;
}): ReactNode {
  const scroll = useRef<HTMLDivElement>(null);
  const length = state === null ? messages.length : state.length + (state.partial === null ? 0 : 1);
  const virtual = useVirtualizer({
    count: length,
    getScrollElement: () => scroll.current,
    estimateSize: () => 80,
    overscan: 6,
  });
  useEffect(() => {
    if (length > 0) virtual.scrollToIndex(length - 1, { align: "end" });
  }, [length, virtual]);
  return (
    <div className="replay-scroll" ref={scroll} tabIndex={0} role="group" aria-label="Messages">
      <div className="replay-list" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const message = messages[index];
          if (message === undefined) return null;
          const share = state?.partial?.index === index ? state.partial.share : 1;
          return (
            <div
              key={index}
              ref={virtual.measureElement}
              data-index={index}
              data-history={index < base && !(index === base - 1 && message.role === "user")}
              className={`replay-message ${message.role}`}
              style={{ transform: `translateY(${start}px)` }}
            >
              <MessageBody message={message} share={share} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

function MessageBody({ message, share }: { readonly message: Message; readonly share: number }): ReactNode {
  const whole = messageText(message);
  const arrived = beginning(whole, Math.round(whole.length * share));
  const text = beginning(arrived, maxLength);
  const calls = message.role === "assistant" && share === 1 ? message.toolCalls : [];
  return (
    <>
      <span className="replay-who">{whoOf(message)}</span>
      <div>
        {share === 1 && message.role === "assistant" ? (
          <Markdown text={whole} />
        ) : (
          text !== "" && (
            <p dir="auto">
              {text}
              {share < 1 && <i className="replay-caret" />}
              {arrived.length > text.length && (
                <span className="muted"> … {count(arrived.length - text.length)} more characters</span>
              )}
            </p>
          )
        )}
        {calls.map(({ id, name, arguments: args }) => (
          <p key={id} className="replay-call">
            <span className="tag tool">{visibleName(name)}</span>{" "}
            <code dir="auto">{beginning(JSON.stringify(args), 400)}</code>
          </p>
        ))}
      </div>
    </>
  );
}

function whoOf(message: Message): string {
  switch (message.role) {
    case "assistant":
      return "agent";
    case "tool":
      return visibleName(message.name ?? "tool");
    case "user":
    case "system":
    case "event":
      return message.role;
  }
}
