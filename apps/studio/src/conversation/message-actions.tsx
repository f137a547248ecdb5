// The actions on one message: fork from here, copy a link, copy as JSON. The menu is created when it is first opened: a
// menu for each visible message would make scrolling slow.

import type { Message } from "everturn/model";
import type { ReactNode } from "react";

import { Menu } from "@base-ui/react/menu";
import { useState } from "react";

import { useConnection } from "../data/connection.tsx";
import { curlOfUserMessage } from "../parts/take-out.ts";
import { hrefOf, navigate, sessionRoute } from "../route.ts";
import { attempt, copyText } from "../shell/toasts.tsx";
import { useConversationPart } from "./use-conversation.ts";

export function MessageActions({ index, message }: { readonly index: number; readonly message: Message }): ReactNode {
  const [isUsed, setUsed] = useState(false);
  return (
    <div className="msg-actions">
      {isUsed ? (
        <ActionMenu index={index} message={message} />
      ) : (
        <button
          type="button"
          className="icon-btn"
          aria-haspopup="menu"
          aria-label={`Actions on message ${index + 1}`}
          onClick={() => setUsed(true)}
        >
          ⋯
        </button>
      )}
    </div>
  );
}

function ActionMenu({ index, message }: { readonly index: number; readonly message: Message }): ReactNode {
  const { client } = useConnection();
  const sessionId = useConversationPart((state) => state.sessionId);
  const fork = (): void =>
    attempt(async () => {
      const forked = await client.fork(sessionId, { at: index + 1 });
      navigate(sessionRoute(forked));
    });
  const link = new URL(hrefOf(sessionRoute(sessionId, { message: index })), location.href).href;
  return (
    <Menu.Root defaultOpen>
      <Menu.Trigger className="icon-btn" aria-label={`Actions on message ${index + 1}`}>
        ⋯
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner className="menu-position" align="end" sideOffset={4}>
          <Menu.Popup className="menu">
            <Menu.Item className="menu-item" onClick={fork}>
              Fork from here
            </Menu.Item>
            <Menu.Item className="menu-item" onClick={() => copyText(link)}>
              Copy link
            </Menu.Item>
            <Menu.Item className="menu-item" onClick={() => copyText(JSON.stringify(message, null, 2))}>
              Copy as JSON
            </Menu.Item>
            {message.role === "user" && (
              <Menu.Item
                className="menu-item"
                onClick={() => copyText(curlOfUserMessage(location.origin, sessionId, message))}
              >
                Copy as curl that sends it
              </Menu.Item>
            )}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
