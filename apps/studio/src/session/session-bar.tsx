// The bar of a session: title, status, totals and the actions on the session.

import type { ReactNode } from "react";

import { Menu } from "@base-ui/react/menu";
import { messageText } from "everturn/model";
import { useMemo, useState } from "react";

import { useConversation } from "../conversation/use-conversation.ts";
import { useConnection } from "../data/connection.tsx";
import { refreshSession } from "../data/session-feed.ts";
import { cost, count } from "../parts/format.ts";
import { curlOf, exportTurn } from "../parts/take-out.ts";
import { beginning, visibleName } from "../parts/text.ts";
import { navigate, sessionRoute } from "../route.ts";
import { statusOf } from "../sessions/session-label.ts";
import { useRegisterActions } from "../shell/actions.ts";
import { Link } from "../shell/link.tsx";
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
  const { client, server } = useConnection();
  const { head, sessionId } = state;
  const [dialog, setDialog] = useState<"stop" | "delete" | null>(null);
  const title = titleOfSession(state);
  useTitle(title);
  const openTurn = head?.openTurn ?? null;
  const openTurnId = openTurn?.turnId ?? null;
  const status =
    head === null
      ? null
      : statusOf({
          status: head.session.status,
          pendingToolCalls: head.session.pendingToolCalls,
          pendingQuestion: head.session.pendingQuestion,
          turnStatus: openTurn?.status ?? null,
          limitWait: openTurn?.limitWait ?? null,
        });
  const origin = head?.forkedFrom ?? null;
  const original = origin?.sessionId ?? null;
  const actions = useMemo(() => {
    return [
      {
        id: "fork",
        label: "Fork this session",
        run: () =>
          attempt(async () => {
            const forked = await client.fork(sessionId);
            navigate(sessionRoute(forked));
          }),
      },
      original === null
        ? {
            id: "compare",
            label: "Compare with another session",
            run: () => navigate({ view: "compare", left: sessionId, right: "" }),
          }
        : {
            id: "compare",
            label: "Compare with the original",
            run: () => navigate({ view: "compare", left: original, right: sessionId }),
          },
      {
        id: "playground",
        label: "Open in the playground",
        run: () => navigate({ view: "playground", from: sessionId }),
      },
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
        run: () => copyText(curlOf(location.origin, ["sessions", sessionId, "messages"])),
      },
      { id: "copy-id", label: "Copy the id", run: () => copyText(sessionId) },
      ...(openTurnId === null ? [] : [{ id: "stop", label: "Stop the turn…", run: () => setDialog("stop") }]),
      { id: "delete", label: "Delete the session…", run: () => setDialog("delete") },
    ];
  }, [client, sessionId, original, server.records, turnId, openTurnId]);
  useRegisterActions(actions);
  const usage = head?.session.usage;
  const tokens = usage === undefined ? null : totalOf(usage);
  return (
    <div className="session-bar">
      <Link to={{ view: "sessions" }} className="icon-btn only-small" aria-label="All sessions">
        ←
      </Link>
      <h1 dir="auto" title={title ?? sessionId}>
        {title ?? sessionId}
      </h1>
      {status !== null && (
        // Screen readers announce that the turn waits, has ended or has failed.
        <span className={`status ${status.kind}`} role="status">
          <span className="visually-hidden">Status: </span>
          {status.text}
        </span>
      )}
      {origin !== null && (
        <Link
          to={sessionRoute(origin.sessionId, { message: Math.max(0, origin.at - 1) })}
          className="muted fork-origin"
          title={`Forked from ${visibleName(origin.sessionId)} at message ${count(origin.at)}`}
          aria-label={`forked from ${visibleName(beginning(origin.sessionId, 24))} at message ${count(origin.at)}`}
        >
          forked
          <span className="fork-source">
            {" "}
            from <bdi>{visibleName(beginning(origin.sessionId, 24))}</bdi> at message {count(origin.at)}
          </span>
        </Link>
      )}
      <span className="spacer" />
      <span className="totals tnum muted">
        {[
          head === null ? null : head.engine,
          tokens === null ? null : `${count(tokens)} tokens`,
          usage === undefined ? null : cost(usage.totalCost),
        ]
          .filter(Boolean)
          .join(" · ")}
      </span>
      <button type="button" className="btn quiet only-narrow" onClick={toggleSheet}>
        Details
      </button>
      <Menu.Root>
        <Menu.Trigger className="btn quiet" aria-label="Actions on the session">
          ⋯
        </Menu.Trigger>
        <Menu.Portal>
          <Menu.Positioner className="menu-position" align="end" sideOffset={4}>
            <Menu.Popup className="menu">
              {/* A screen without a keyboard has no other short way; the palette has its own entry. What cannot be undone stays last. */}
              <Menu.Item className="menu-item" onClick={() => togglePane("timeline")}>
                Hide or show the timeline
              </Menu.Item>
              {actions.map(({ id, label, run }) => (
                <Menu.Item key={id} className="menu-item" onClick={run}>
                  {label}
                </Menu.Item>
              ))}
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
      {original !== null && (
        <Link to={{ view: "compare", left: original, right: sessionId }} className="btn quiet only-wide">
          Compare
        </Link>
      )}
      {openTurnId !== null && (
        <button type="button" className="btn danger" onClick={() => setDialog("stop")}>
          Stop
        </button>
      )}
      {dialog === "stop" && openTurnId !== null && (
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
          close={() => setDialog(null)}
        />
      )}
      {dialog === "delete" && (
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
          close={() => setDialog(null)}
        />
      )}
    </div>
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

function totalOf({
  totalTokens,
  inputTokens,
  outputTokens,
}: {
  readonly totalTokens: number | null;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
}): number | null {
  if (totalTokens !== null) return totalTokens;
  return inputTokens === null && outputTokens === null ? null : (inputTokens ?? 0) + (outputTokens ?? 0);
}
