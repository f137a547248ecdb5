// The view "Compare": two sessions side by side, for example a fork and its original.

import type { ReactNode } from "react";

import { useTitle } from "../shell/title.ts";

export function Compare({ left, right }: { readonly left: string; readonly right: string }): ReactNode {
  useTitle("Compare");
  return (
    <h1 className="page-title">
      Compare {left} {right}
    </h1>
  );
}
