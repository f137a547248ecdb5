// The actions on one message: fork from here, copy a link, copy as JSON.

import type { Message } from "everturn/model";
import type { ReactNode } from "react";

import { Menu } from "@base-ui/react/menu";

import { useConnection } from "../data/connection.tsx";
import { hrefOf, navigate, sessionRoute } from "../route.ts";
import { rememberFork } from "../session/forks.ts";
import { attempt, copyText } from "../shell/toasts.tsx";
import { useConversationPart } from "./use-conversation.ts";

export function MessageActions({ index, message }: { readonly index: number; readonly message: Message }): ReactNode {
  const { client } = useConnection();
  const sessionId = useConversationPart((state) => state.sessionId);
  const fork = (): void =>
    attempt(async () => {
      const forked = await client.fork(sessionId, { at: index + 1 });
      rememberFork(forked, sessionId);
      navigate(sessionRoute(forked));
    });
  const link = new URL(hrefOf(sessionRoute(sessionId, { message: index })), location.href).href;
  return (
    <div className="msg-actions">
      <Menu.Root>
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
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
    </div>
  );
}
