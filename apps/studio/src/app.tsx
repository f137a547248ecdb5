// The page: the header with its views, and the view that the URL names.

import type { ConnectionState } from "./data/connection.tsx";
import type { ReactNode } from "react";

import { ConnectionProvider } from "./data/connection.tsx";
import { useRoute } from "./route.ts";

export function App(): ReactNode {
  return (
    <ConnectionProvider render={(state) => <Connecting state={state} />}>
      <View />
    </ConnectionProvider>
  );
}

function Connecting({ state }: { readonly state: ConnectionState }): ReactNode {
  return <p role="status">{state.type}</p>;
}

function View(): ReactNode {
  const route = useRoute();
  return <main>{route.view}</main>;
}
