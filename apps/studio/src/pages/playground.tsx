// The view "Playground". `from`: the session whose conversation it starts with.

import type { ReactNode } from "react";

import { useTitle } from "../shell/title.ts";

export function Playground({ from }: { readonly from: string | null }): ReactNode {
  useTitle("Playground");
  return <h1 className="page-title">Playground {from}</h1>;
}
