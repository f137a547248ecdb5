// All sessions that wait for a person, and all parked turns.

import type { ReactNode } from "react";

import { useTitle } from "../shell/title.ts";
import { Attention } from "./attention.tsx";
import "./overview.css";

export function WaitingPage(): ReactNode {
  useTitle("Waiting");
  return (
    <div className="dashboard">
      <div className="dashboard-bar">
        <h1>Waiting</h1>
      </div>
      <div className="columns">
        <Attention limit={100} />
      </div>
    </div>
  );
}
