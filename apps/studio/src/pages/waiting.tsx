// The view "Waiting".

import type { ReactNode } from "react";

import { useTitle } from "../shell/title.ts";

export function Waiting(): ReactNode {
  useTitle("Waiting");
  return <h1 className="page-title">Waiting</h1>;
}
