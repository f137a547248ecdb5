// A button that copies a text.

import type { ReactNode } from "react";

import { useState } from "react";

import { notifyError } from "../shell/toasts.tsx";

export function CopyButton({ text, label }: { readonly text: string; readonly label: string }): ReactNode {
  const [isCopied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch (error) {
      notifyError(error);
    }
  };
  return (
    <button type="button" className="copy" aria-label={label} onClick={() => void copy()}>
      {isCopied ? "Copied" : "Copy"}
    </button>
  );
}
