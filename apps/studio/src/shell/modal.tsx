// A dialog over the page, and a question that has to be confirmed. Focus stays inside, Escape closes.

import type { ReactNode } from "react";

import { Dialog } from "@base-ui/react/dialog";

import { Button } from "./button.tsx";

export function Modal({
  title,
  close,
  children,
  className = "",
}: {
  readonly title: string;
  readonly close: () => void;
  readonly children: ReactNode;
  readonly className?: string;
}): ReactNode {
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && close()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className={`modal ${className}`}>
          <div className="modal-head">
            <Dialog.Title className="modal-title">{title}</Dialog.Title>
            <Dialog.Close className="icon-btn" aria-label="Close">
              ×
            </Dialog.Close>
          </div>
          {children}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

/** Asks before an action that cannot be undone. */
export function Confirm({
  title,
  text,
  action,
  run,
  close,
}: {
  readonly title: string;
  readonly text: string;
  /** The label of the button that does it. */
  readonly action: string;
  readonly run: () => void;
  readonly close: () => void;
}): ReactNode {
  return (
    <Modal title={title} close={close} className="confirm">
      <p className="muted">{text}</p>
      <div className="actions end">
        {/* A key that is held down or pressed twice, and opened the dialog, must not confirm it. */}
        <Button autoFocus onClick={close}>
          Keep
        </Button>
        <Button
          look="danger-fill"
          onClick={() => {
            close();
            run();
          }}
        >
          {action}
        </Button>
      </div>
    </Modal>
  );
}
