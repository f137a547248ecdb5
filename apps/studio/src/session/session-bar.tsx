// The bar of a session: title, status, totals and the actions on the session.

import type { Action } from "../shell/actions.ts";
import type { ReactNode } from "react";

import { messageText } from "everturn";
import { useMemo, useState } from "react";

import { useConversation } from "../conversation/use-conversation.ts";
import { useConnection } from "../data/connection.tsx";
import { refreshSession } from "../data/session-feed.ts";
import { cost, count } from "../parts/format.ts";
import { curlOf, exportTurn } from "../parts/take-out.ts";
import { beginning, visibleName } from "../parts/text.ts";
import { apiUrl, navigate, sessionRoute } from "../route.ts";
import { statusOf } from "../sessions/session-label.ts";
import { useRegisterActions } from "../shell/actions.ts";
import { Button } from "../shell/button.tsx";
import { Link } from "../shell/link.tsx";
import { ActionMenu } from "../shell/menu.tsx";
import { Confirm } from "../shell/modal.tsx";
import { togglePane } from "../shell/panes.tsx";
import { useTitle } from "../shell/title.ts";
import { attempt, copyText } from "../shell/toasts.tsx";

export function SessionBar({
  turnId,
  toggleSheet,
}: {
  readonly turnId: string | null;
  readonly toggleSheet: () => void;
}): ReactNode {
  const state = useConversation();
  const { head, sessionId } = state;
  const [dialog, setDialog] = useState<Dialog | null>(null);
  const title = titleOfSession(state) ?? sessionId;
  useTitle(titleOfSession(state));
  const openTurnId = head?.openTurn?.turnId ?? null;
  const origin = head?.forkedFrom ?? null;
  const original = origin?.sessionId ?? null;
  const hasWindow = (head?.session.contextWindow ?? null) !== null;
  const actions = useSessionActions({ sessionId, original, turnId, openTurnId, hasWindow, ask: setDialog });
  useRegisterActions(actions);
  return (
    <div className="session-bar">
      <Link to={{ view: "sessions" }} className="icon-btn only-small" aria-label="All sessions">
        ←
      </Link>
      <h1 dir="auto" title={title}>
        {title}
      </h1>
      {head !== null && <Status head={head} />}
      {origin !== null && <Origin origin={origin} />}
      <span className="spacer" />
      <span className="totals tnum muted">{head !== null && totalsOf(head)}</span>
      <Button look="quiet only-narrow" onClick={toggleSheet}>
        Details
      </Button>
      <ActionMenu label="Actions on the session" className="btn quiet" actions={[timelineAction, ...actions]} />
      {original !== null && (
        <Link to={{ view: "compare", left: original, right: sessionId }} className="btn quiet only-wide">
          Compare
        </Link>
      )}
      {openTurnId !== null && (
        <Button look="danger" onClick={() => setDialog("stop")}>
          Stop
        </Button>
      )}
      <Dialogs dialog={dialog} openTurnId={openTurnId} close={() => setDialog(null)} />
    </div>
  );
}

/** A question that has to be confirmed. */
type Dialog = "stop" | "delete";

type Head = NonNullable<ReturnType<typeof useConversation>["head"]>;

/** A screen without a keyboard has no other short way; the palette has an entry of its own. */
const timelineAction: Action = {
  id: "timeline",
  label: "Hide or show the timeline",
  run: () => togglePane("timeline"),
};

/** The actions of the menu and of the palette. What cannot be undone is last. */
function useSessionActions({
  sessionId,
  original,
  turnId,
  openTurnId,
  hasWindow,
  ask,
}: {
  readonly sessionId: string;
  /** The session that this one is a fork of. */
  readonly original: string | null;
  readonly turnId: string | null;
  readonly openTurnId: string | null;
  /** Whether the engine of the session has a context policy. */
  readonly hasWindow: boolean;
  readonly ask: (dialog: Dialog) => void;
}): readonly Action[] {
  const { client, server } = useConnection();
  return useMemo(
    () => [
      {
        id: "fork",
        label: "Fork this session",
        run: () => attempt(async () => navigate(sessionRoute(await client.fork(sessionId)))),
      },
      {
        id: "compare",
        label: original === null ? "Compare with another session" : "Compare with the original",
        run: () =>
          navigate({
            view: "compare",
            ...(original === null ? { left: sessionId, right: "" } : { left: original, right: sessionId }),
          }),
      },
      {
        id: "playground",
        label: "Open in the playground",
        run: () => navigate({ view: "playground", from: sessionId }),
      },
      ...(hasWindow && openTurnId === null
        ? [
            {
              id: "compact",
              label: "Summarize older messages for the model",
              run: () =>
                attempt(async () => {
                  await client.compact(sessionId);
                  refreshSession(client, sessionId);
                }),
            },
          ]
        : []),
      ...(server.records && turnId !== null
        ? [
            {
              id: "export",
              label: "Export the turn as a replay file",
              run: () => attempt(async () => exportTurn(client, sessionId, turnId)),
            },
          ]
        : []),
      {
        id: "copy-json",
        label: "Copy the session as JSON",
        run: () => attempt(async () => copyText(JSON.stringify(await client.get(sessionId), null, 2))),
      },
      {
        id: "copy-curl",
        label: "Copy as curl",
        run: () => copyText(curlOf(apiUrl(), ["sessions", sessionId, "messages"])),
      },
      { id: "copy-id", label: "Copy the id", run: () => copyText(sessionId) },
      ...(openTurnId === null ? [] : [{ id: "stop", label: "Stop the turn…", run: () => ask("stop") }]),
      { id: "delete", label: "Delete the session…", run: () => ask("delete") },
    ],
    [client, sessionId, original, server.records, turnId, openTurnId, hasWindow, ask],
  );
}

/** What the session does. Screen readers announce that the turn waits, has ended or has failed. */
function Status({ head: { session, openTurn } }: { readonly head: Head }): ReactNode {
  const { kind, text } = statusOf({
    ...session,
    turnStatus: openTurn?.status ?? null,
    limitWait: openTurn?.limitWait ?? null,
  });
  return (
    <span className={`status ${kind}`} role="status">
      <span className="visually-hidden">Status: </span>
      {text}
    </span>
  );
}

/** The session and the message that this session was forked from. */
function Origin({ origin: { sessionId, at } }: { readonly origin: NonNullable<Head["forkedFrom"]> }): ReactNode {
  const name = visibleName(beginning(sessionId, 24));
  return (
    <Link
      to={sessionRoute(sessionId, { message: Math.max(0, at - 1) })}
      className="muted fork-origin"
      title={`Forked from ${visibleName(sessionId)} at message ${count(at)}`}
      aria-label={`forked from ${name} at message ${count(at)}`}
    >
      forked
      <span className="fork-source">
        {" "}
        from <bdi>{name}</bdi> at message {count(at)}
      </span>
    </Link>
  );
}

/** The engine, the tokens and the cost in one line. */
function totalsOf({ engine, session: { usage } }: Head): string {
  const { totalTokens, inputTokens, outputTokens, totalCost } = usage;
  const isKnown = totalTokens !== null || inputTokens !== null || outputTokens !== null;
  const tokens = totalTokens ?? (inputTokens ?? 0) + (outputTokens ?? 0);
  return [engine, isKnown && `${count(tokens)} tokens`, cost(totalCost)].filter(Boolean).join(" · ");
}

function Dialogs({
  dialog,
  openTurnId,
  close,
}: {
  readonly dialog: Dialog | null;
  readonly openTurnId: string | null;
  readonly close: () => void;
}): ReactNode {
  const { client } = useConnection();
  const { sessionId } = useConversation();
  if (dialog === "delete") {
    return (
      <Confirm
        title="Delete this session?"
        text="Its messages, turns and journals are removed. This cannot be undone."
        action="Delete"
        run={() =>
          attempt(async () => {
            await client.delete(sessionId);
            navigate({ view: "sessions" });
          })
        }
        close={close}
      />
    );
  }
  if (dialog === null || openTurnId === null) return null;
  return (
    <Confirm
      title="Stop the turn?"
      text="What the turn has committed stays. A tool that runs now is told to stop."
      action="Stop the turn"
      run={() =>
        attempt(async () => {
          await client.cancel(sessionId, { turnId: openTurnId });
          refreshSession(client, sessionId);
        })
      }
      close={close}
    />
  );
}

/** The title: that of the metadata, or the beginning of the first user message, if it is loaded. */
function titleOfSession({ head, messages }: ReturnType<typeof useConversation>): string | null {
  if (head === null) return null;
  const stored = head.session.metadata["title"];
  if (typeof stored === "string" && stored.trim() !== "") return visibleName(stored);
  for (let index = 0; index < 4; index += 1) {
    const message = messages.get(index);
    if (message?.role === "user") return visibleName(beginning(messageText(message), 120));
  }
  return null;
}
