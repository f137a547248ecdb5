// A menu of actions that a button with the sign ⋯ opens.

import type { Action } from "./actions.ts";
import type { ReactNode } from "react";

import { Menu } from "@base-ui/react/menu";

export function ActionMenu({
  label,
  className,
  isOpen = false,
  actions,
}: {
  /** The accessible name of the button. */
  readonly label: string;
  /** The class of the button. */
  readonly className: string;
  /** Whether the menu is open when it is first shown. */
  readonly isOpen?: boolean;
  readonly actions: readonly Action[];
}): ReactNode {
  return (
    <Menu.Root defaultOpen={isOpen}>
      <Menu.Trigger className={className} aria-label={label}>
        ⋯
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner className="menu-position" align="end" sideOffset={4}>
          <Menu.Popup className="menu">
            {actions.map(({ id, label: text, run }) => (
              <Menu.Item key={id} className="menu-item" onClick={run}>
                {text}
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
