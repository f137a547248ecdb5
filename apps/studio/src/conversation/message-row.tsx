// One row of the conversation: a message with its tool cards, a note about what happened, or the reply that arrives.

import type { ConversationState, LiveNote, OpenReply, WaitingCall } from "./session-store.ts";
import type { Message, ToolCall } from "everturn";
import type { MouseEvent, ReactNode } from "react";

import { memo } from "react";

import { duration } from "../parts/format.ts";
import { visibleName, wordClass } from "../parts/text.ts";
import { PlainText } from "../text/long-text.tsx";
import { Markdown } from "../text/markdown.tsx";
import { FailureCard } from "./failure-card.tsx";
import { MessageActions } from "./message-actions.tsx";
import { MessageContent } from "./message-content.tsx";
import { wholeText } from "./open-text.ts";
import { Reasoning } from "./reasoning.tsx";
import { callKey, committedAnswer } from "./session-store.ts";
import { ToolCard } from "./tool-card.tsx";

/** How long a call took, how often it was started, and its child agents, from the timeline. */
export type CallTime = {
  readonly durationMs: number | null;
  readonly attempts: number;
  /** The turns of child agents that ran in it. */
  readonly children: readonly { readonly sessionId: string; readonly turnId: string | null }[];
};
export type CallTimes = ReadonlyMap<string, CallTime>;

/** What a row selects: the message, or one call of it. */
export type Select = (index: number, toolCallId: string | null) => void;

export const MessageRow = memo(function MessageRow({
  index,
  message,
  state,
  waiting,
  times,
  isSelected,
  selectedCall,
  isCommitted,
  select,
}: {
  readonly index: number;
  readonly message: Message;
  /** Only the calls and answers are read from it: pass a state whose other parts do not matter. */
  readonly state: Pick<ConversationState, "messages" | "calls">;
  /** The calls of this message that wait for a person. */
  readonly waiting: ReadonlyMap<string, WaitingCall>;
  /** Durations and attempts by the id of the call, from the timeline; `null`: it is not loaded. */
  readonly times: CallTimes | null;
  readonly isSelected: boolean;
  readonly selectedCall: string | null;
  /** Only a committed message can be forked from and linked to. */
  readonly isCommitted: boolean;
  readonly select: Select;
}): ReactNode {
  const calls = message.role === "assistant" ? message.toolCalls : [];
  return (
    <article
      className={`msg ${message.role} ${isSelected ? "sel" : ""}`}
      aria-label={`Message ${index + 1} of ${authorOf(message)}`}
      aria-current={isSelected ? "true" : undefined}
      onClick={(event) => {
        if (isPlainClick(event)) select(index, null);
      }}
    >
      <div className="who" dir="auto">
        {authorOf(message)}
      </div>
      <div className="msg-body">
        <MessageContent message={message} />
        {calls.length > 0 && (
          <div className={calls.length > 1 && waiting.size === 0 ? "cards" : "cards one"}>
            {calls.map((call) => (
              <CallCard
                key={call.id}
                index={index}
                call={call}
                state={state}
                waiting={waiting.get(call.id) ?? null}
                times={times}
                isSelected={isSelected && selectedCall === call.id}
                select={select}
              />
            ))}
          </div>
        )}
      </div>
      {isCommitted && <MessageActions index={index} message={message} />}
    </article>
  );
});

function CallCard({
  index,
  call,
  state,
  waiting,
  times,
  isSelected,
  select,
}: {
  readonly index: number;
  readonly call: ToolCall;
  readonly state: Pick<ConversationState, "messages" | "calls">;
  readonly waiting: WaitingCall | null;
  readonly times: CallTimes | null;
  readonly isSelected: boolean;
  readonly select: Select;
}): ReactNode {
  const live = state.calls.get(callKey(index, call.id)) ?? null;
  const answer = committedAnswer(state, index, call.id) ?? live?.answer ?? null;
  return (
    <ToolCard
      call={call}
      live={live}
      answer={answer}
      pending={waiting?.pending ?? null}
      hasForm={waiting?.isLast === true}
      time={times?.get(call.id) ?? null}
      isSelected={isSelected}
      select={() => select(index, call.id)}
    />
  );
}

/** A click that is meant for the message: not on a control, and not the end of a text selection. */
function isPlainClick({ target }: MouseEvent): boolean {
  if (!(target instanceof Element) || getSelection()?.isCollapsed === false) return false;
  return target.closest("a, button, input, textarea, select, summary, label, .tool-card, [role='menu']") === null;
}

function authorOf({ role, name, origin }: Message): string {
  if (name !== null && name !== "") return visibleName(name);
  if (origin?.type === "plugin") return visibleName(origin.pluginId);
  return role === "assistant" ? "agent" : role;
}

/** How many finished blocks of a reply are shown while it arrives. */
const maxOpenBlocks = 100;

/** The reply that arrives. Finished blocks are rendered once; only the last one changes. */
export function OpenReplyRow({ reply }: { readonly reply: OpenReply }): ReactNode {
  return (
    <article className="msg assistant open" aria-label="Reply that arrives" aria-busy="true">
      <div className="who">agent</div>
      <div className="msg-body">
        {reply.parts.map((part) =>
          part.type === "reasoning" ? (
            <Reasoning key={part.key} text={wholeText(part.text)} isOpen />
          ) : part.type === "call" ? (
            <div key={part.key} className="card tool-card">
              <div className="head">
                <span className="name">{visibleName(part.name)}</span>
                <span className="tag">writes arguments · {part.length} characters</span>
              </div>
            </div>
          ) : (
            <div key={part.key} className="open-text">
              {part.text.blocks.length > maxOpenBlocks && (
                <p className="muted">The beginning is shown when the reply is complete.</p>
              )}
              {part.text.blocks.map((block, index) =>
                index < part.text.blocks.length - maxOpenBlocks ? null : block.isPlain ? (
                  <PlainBlock key={index} text={block.text} />
                ) : (
                  <Markdown key={index} text={block.text} />
                ),
              )}
              {part.text.isTailPlain ? <PlainBlock text={part.text.tail} /> : <Markdown text={part.text.tail} />}
            </div>
          ),
        )}
        <span className="caret" aria-hidden="true" />
      </div>
    </article>
  );
}

const PlainBlock = memo(function PlainBlock({ text }: { readonly text: string }): ReactNode {
  return (
    <div className={`plain prose ${wordClass(text)}`} dir="auto">
      {text}
    </div>
  );
});

/** Text of an attempt that did not count. */
const Discarded = memo(function Discarded({ text }: { readonly text: string }): ReactNode {
  return (
    <del className="void">
      <Markdown text={text} />
    </del>
  );
});

const reasons = {
  recovery: "The process died and another one continued",
  retry: "The attempt failed and was repeated",
  fallback: "Another model continued",
  restart: "The step was restarted",
};

/**
 * Something that happened between messages. `recovery` says which processes were involved, if the timeline is known.
 */
export const NoteRow = memo(function NoteRow({
  note,
  recovery = null,
}: {
  readonly note: LiveNote;
  readonly recovery?: string | null;
}): ReactNode {
  switch (note.type) {
    case "discarded": {
      const line = note.line ?? (note.reason === "recovery" ? (recovery ?? reasons.recovery) : reasons[note.reason]);
      if (!note.isReplaced) {
        return (
          <div className="note">
            {note.text !== "" && <Discarded text={note.text} />}
            <p className="recovered" role="status">
              {line}
            </p>
          </div>
        );
      }
      return (
        <details className="note">
          <summary className="recovered">{line}</summary>
          {note.text === "" ? <p className="muted">No text had arrived.</p> : <Discarded text={note.text} />}
        </details>
      );
    }
    case "retry":
      return (
        <details className="note">
          <summary className="retry-line">
            {note.attempt === null ? "An attempt" : `Attempt ${note.attempt}`} failed ·{" "}
            {note.delayMs === null ? "another one followed" : `the next one after ${duration(note.delayMs)}`}
          </summary>
          <FailureCard title="failed attempt" failure={note.failure} />
        </details>
      );
    case "recovered":
      return <p className="recovered note">{note.line}</p>;
    case "failure":
      return (
        <div className="note">
          <FailureCard title="failure" failure={note.failure} />
        </div>
      );
    case "warning":
      return (
        <div className="note warning">
          <span className="tag wait">warning</span> <span className="mono">{note.warning.path}</span>{" "}
          <PlainText text={note.warning.message} limit={500} />
        </div>
      );
  }
});
