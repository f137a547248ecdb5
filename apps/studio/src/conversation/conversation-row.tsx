// One row of the conversation: a stored message, what the open turn has added, or the end. Before it stand the notes
// about attempts and recoveries.

import type { FrameMark } from "../context/frame-marks.ts";
import type { Select } from "./message-row.tsx";
import type { Scrubbed } from "./scrubbed.ts";
import type { ConversationState, LiveItem, LiveNote, WaitingCall } from "./session-store.ts";
import type { ConversationSelection } from "./use-selection.ts";
import type { Message } from "everturn";
import type { ReactNode } from "react";

import { FrameRow } from "../context/frame-row.tsx";
import { Markdown } from "../text/markdown.tsx";
import { ConversationTail } from "./conversation-tail.tsx";
import { MessageRow, NoteRow, OpenReplyRow } from "./message-row.tsx";
import { nextIndex } from "./session-store.ts";
import { notesAt } from "./stored-notes.ts";

/** What all rows are made of. */
type RowsView = {
  readonly state: ConversationState;
  /** The moment of the past that is shown; `null`: the present is. */
  readonly past: Scrubbed | null;
  readonly selection: ConversationSelection;
  readonly select: Select;
  /** The calls that wait, by the index of their reply and their id. */
  readonly waiting: ReadonlyMap<number, ReadonlyMap<string, WaitingCall>>;
  /** What rows with calls read. */
  readonly shared: Pick<ConversationState, "messages" | "calls">;
  readonly storedNotes: ReadonlyMap<number, readonly LiveNote[]>;
  /** Where summaries stand for the messages before, by the index of the message that follows. */
  readonly frames: ReadonlyMap<number, readonly FrameMark[]>;
  /** Ends the following of the end of the conversation. */
  readonly stay: () => void;
};

/** A row without calls reads no answers, so it is not rendered again when other messages are loaded. */
const noAnswers: RowsView["shared"] = { messages: new Map(), calls: new Map() };
const noCalls: ReadonlyMap<string, WaitingCall> = new Map();

type RowProps = { readonly row: number; readonly view: RowsView };

export function ConversationRow({ row, view }: RowProps): ReactNode {
  const { length, turn } = view.state;
  if (row < length) return <StoredRow row={row} view={view} />;
  const item = turn?.items[row - length];
  return item === undefined ? <EndRow row={row} view={view} /> : <LiveRow item={item} view={view} />;
}

function StoredRow({ row, view }: RowProps): ReactNode {
  const { state, selection, waiting, shared, storedNotes, select } = view;
  const message = state.messages.get(row);
  if (message === undefined) return <div className="msg-placeholder" aria-hidden="true" />;
  return (
    <>
      <Frames index={row} view={view} />
      <Notes notes={notesAt(state.notes.get(row), storedNotes.get(row))} view={view} />
      {message.role !== "tool" && (
        <MessageRow
          index={row}
          message={message}
          state={hasCalls(message) ? shared : noAnswers}
          waiting={waiting.get(row) ?? noCalls}
          times={selection.times(row)}
          isSelected={selection.message === row}
          selectedCall={selection.toolCallId}
          isCommitted
          select={select}
        />
      )}
    </>
  );
}

function LiveRow({ item, view }: { readonly item: LiveItem; readonly view: RowsView }): ReactNode {
  const { state, selection, shared, select } = view;
  if (item.type === "note") {
    // The end of the conversation says why a turn is parked, with what can be done.
    const isShownAtEnd = item.note.type === "failure" && state.head?.openTurn?.status === "parked";
    return isShownAtEnd ? null : <NoteRow note={item.note} recovery={selection.recovery} />;
  }
  return (
    <>
      <Frames index={item.index} view={view} />
      <Notes notes={unreceivedNotes(view, item.index)} view={view} />
      <MessageRow
        index={item.index}
        message={item.message}
        state={shared}
        waiting={noCalls}
        times={selection.times(item.index)}
        isSelected={selection.message === item.index}
        selectedCall={selection.toolCallId}
        isCommitted={false}
        select={select}
      />
    </>
  );
}

/** The reply that is being received, or the end of the conversation after it. */
function EndRow({ row, view }: RowProps): ReactNode {
  const { state, past, storedNotes } = view;
  const { length, turn, notes } = state;
  const open = turn?.open ?? null;
  const endIndex = turn === null ? length : Math.max(length, nextIndex(turn.base, turn.items));
  const endNotes = past === null && turn !== null ? unreceivedNotes(view, nextIndex(turn.base, turn.items)) : [];
  if (open !== null && row === length + (turn?.items.length ?? 0)) {
    return (
      <>
        <Frames index={endIndex} view={view} />
        <Notes notes={endNotes} view={view} />
        <OpenReplyRow reply={open} />
      </>
    );
  }
  if (past !== null) return <PastTail text={past.partial} />;
  // Notes of a turn that failed follow its last message.
  return (
    <>
      {open === null && <Frames index={endIndex} view={view} />}
      {open === null && <Notes notes={endNotes} view={view} />}
      {turn === null && <Notes notes={notesAt(notes.get(length), storedNotes.get(length))} view={view} />}
      <ConversationTail />
    </>
  );
}

/** The stored notes before a message of the open turn. A page that was opened later did not receive their events. */
function unreceivedNotes({ state: { turn }, storedNotes }: RowsView, index: number): readonly LiveNote[] {
  const isReceived = turn?.items.some((item) => item.type === "note" && item.index === index) === true;
  return isReceived ? [] : (storedNotes.get(index) ?? []);
}

function Frames({ index, view }: { readonly index: number; readonly view: RowsView }): ReactNode {
  return view.frames.get(index)?.map((mark) => <FrameRow key={mark.frame.id} mark={mark} onOpen={view.stay} />);
}

function Notes({ notes, view }: { readonly notes: readonly LiveNote[]; readonly view: RowsView }): ReactNode {
  return notes.map((note, index) => <NoteRow key={index} note={note} recovery={view.selection.recovery} />);
}

/** The end of the conversation at a moment of the past: the reply that was arriving. */
function PastTail({ text }: { readonly text: string | null }): ReactNode {
  if (text === null) return null;
  return (
    <article className="msg assistant" aria-label="Reply that was arriving">
      <div className="who">agent</div>
      <div className="msg-body">
        <Markdown text={text} />
        <span className="caret" aria-hidden="true" />
      </div>
    </article>
  );
}

function hasCalls(message: Message): boolean {
  return message.role === "assistant" && message.toolCalls.length > 0;
}
