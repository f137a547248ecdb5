// The logo: a turn that begins again.

import type { ReactNode } from "react";

export function Logo(): ReactNode {
  return (
    <svg className="logo-mark" width="18" height="18" viewBox="0 0 18 18" fill="none" aria-hidden="true">
      <path d="M14.9 6.2A6.6 6.6 0 1 0 15.6 9" stroke="currentColor" strokeWidth="2" strokeLinecap="round" />
      <path d="M15.6 3.2v3.4h-3.4" stroke="currentColor" strokeWidth="2" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}
