// The composer: a message to the session. While a turn runs the message steers it, or waits for the next turn, or
// interrupts it.

import type { UserInput } from "../data/types.ts";
import type { Attachment, BusyPolicy } from "./attachments.ts";
import type { ClipboardEvent, DragEvent, ReactNode } from "react";

import { user } from "everturn";
import { useId, useRef, useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { refreshSession } from "../data/session-feed.ts";
import { shownTenant } from "../route.ts";
import { Button, IconButton } from "../shell/button.tsx";
import { useKeptText } from "../shell/draft.ts";
import { notifyError } from "../shell/toasts.tsx";
import { messageContent, maxFileText, readAttachment } from "./attachments.ts";
import { useConversationPart, useConversationStore } from "./use-conversation.ts";

/** What a message does while a turn runs. */
const policies = {
  steer: { label: "Steer", text: "Steer this turn" },
  queue: { label: "Queue", text: "Write the message of the next turn" },
  interrupt: { label: "Interrupt", text: "Stop this turn, then start the next one" },
} as const;

export function Composer(): ReactNode {
  const { client } = useConnection();
  const { steer } = useConversationStore();
  const sessionId = useConversationPart((state) => state.sessionId);
  const isRunning = useConversationPart(({ head }) => {
    const status = head?.openTurn?.status;
    return status === "running" || status === "queued";
  });
  const question = useConversationPart(({ head }) => head?.session.pendingQuestion ?? null);
  const pendingCount = useConversationPart(({ head }) => head?.session.pendingToolCalls.length ?? 0);
  const [text, setText] = useKeptText(`message ${shownTenant() ?? ""} ${sessionId}`);
  const [files, setFiles] = useState<readonly Attachment[]>([]);
  const [policy, setPolicy] = useState<BusyPolicy>("steer");
  const [isSending, setSending] = useState(false);
  const [isDragged, setDragged] = useState(false);
  const id = useId();
  const isEmpty = text.trim() === "" && files.length === 0;

  const attach = async (list: Iterable<File>): Promise<void> => {
    let attached = files;
    for (const file of list) {
      try {
        const attachment = await readAttachment(file, attached);
        if (typeof attachment === "string") notifyError(new Error(attachment));
        else attached = [...attached, attachment];
        setFiles(attached);
      } catch (error) {
        notifyError(error);
      }
    }
  };
  const send = async (): Promise<void> => {
    if (isEmpty || isSending) return;
    setSending(true);
    const message: UserInput = { role: "user", content: messageContent(text, files) };
    // An answer to a question is a tool's result, and what waits for a turn or interrupts one is counted below.
    const isShown = isRunning ? policy === "steer" : question === null && pendingCount === 0;
    const settle = isShown ? steer(user(message.content)) : null;
    // What is typed from here on belongs to the next message.
    setText(() => "");
    setFiles([]);
    try {
      await client.send(sessionId, message, { whenBusy: isRunning ? policy : "steer" });
      settle?.(true);
      refreshSession(client, sessionId);
    } catch (error) {
      settle?.(false);
      setText((typed) => (typed === "" ? text : `${text}\n${typed}`));
      setFiles((attached) => [...files, ...attached]);
      notifyError(error);
    } finally {
      setSending(false);
    }
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setDragged(false);
    void attach(event.dataTransfer.files);
  };
  const paste = (event: ClipboardEvent): void => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    void attach(event.clipboardData.files);
  };
  const hint =
    question !== null
      ? "Answer the question"
      : isRunning
        ? policies[policy].text
        : pendingCount > 0
          ? "Write to the session, or decide above"
          : "Write to the session";
  return (
    <form
      className={isDragged ? "composer dragged" : "composer"}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setDragged(true);
      }}
      onDragLeave={() => setDragged(false)}
      onDrop={drop}
    >
      <AttachedFiles
        files={files}
        remove={(removed) => setFiles((previous) => previous.filter((file) => file.id !== removed))}
      />
      <div className="composer-row">
        <AttachButton attach={(list) => void attach(list)} />
        <label className="visually-hidden" htmlFor={id}>
          Message
        </label>
        <textarea
          id={id}
          data-composer=""
          className="composer-text"
          rows={1}
          dir="auto"
          placeholder={hint}
          value={text}
          onChange={({ target: { value } }) => setText(() => value)}
          onPaste={paste}
          onKeyDown={(event) => {
            if (event.key === "Escape") event.currentTarget.blur();
            if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
            event.preventDefault();
            void send();
          }}
        />
        {isRunning && <PolicyChoice policy={policy} change={setPolicy} />}
        <Button type="submit" look="primary small" disabled={isEmpty || isSending}>
          {isRunning ? policies[policy].label : "Send"} <span aria-hidden="true">⏎</span>
        </Button>
      </div>
    </form>
  );
}

function AttachedFiles({
  files,
  remove,
}: {
  readonly files: readonly Attachment[];
  readonly remove: (id: Attachment["id"]) => void;
}): ReactNode {
  if (files.length === 0) return null;
  return (
    <ul className="attachments" aria-label="Attached files">
      {files.map(({ id, name, bytes }) => (
        <li key={id} className="file">
          <span dir="auto">{name}</span>
          <span className="muted tnum">{Math.max(1, Math.round(bytes / 1024))} KB</span>
          <IconButton label={`Remove ${name}`} onClick={() => remove(id)}>
            ×
          </IconButton>
        </li>
      ))}
    </ul>
  );
}

/** Opens the file dialog of the browser. */
function AttachButton({ attach }: { readonly attach: (files: readonly File[]) => void }): ReactNode {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton
        label={`Attach a file, ${maxFileText}`}
        title={`Attach images, PDFs or texts, ${maxFileText}`}
        onClick={() => input.current?.click()}
      >
        +
      </IconButton>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        onChange={(event) => {
          attach([...(event.target.files ?? [])]);
          event.target.value = "";
        }}
      />
    </>
  );
}

/** Chooses what the message does while a turn runs. */
function PolicyChoice({
  policy,
  change,
}: {
  readonly policy: BusyPolicy;
  readonly change: (policy: BusyPolicy) => void;
}): ReactNode {
  return (
    <select
      className="select small"
      aria-label="What the message does while the turn runs"
      value={policy}
      onChange={(event) => {
        const chosen = event.target.value;
        if (chosen === "steer" || chosen === "queue" || chosen === "interrupt") change(chosen);
      }}
    >
      {Object.entries(policies).map(([name, { label }]) => (
        <option key={name} value={name}>
          {label}
        </option>
      ))}
    </select>
  );
}
