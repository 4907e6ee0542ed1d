// Where the dashboard is on this host: a project may have it below a prefix. Sockets, fetches and the worker begin there.
export const root = document.documentElement.dataset.root ?? "/";
