// The title of the browser's tab: what is shown, then the name of the studio.

import { useEffect } from "react";

/** Sets the title of the document while the component is shown; `null`: only the name of the studio. */
export function useTitle(title: string | null): void {
  useEffect(() => {
    document.title = title === null ? "Everturn studio" : `${title} · Everturn studio`;
    return () => {
      document.title = "Everturn studio";
    };
  }, [title]);
}
