(() => {
  const meta = document.createElement("meta");
  meta.httpEquiv = "Content-Security-Policy";
  meta.content = "frame-src 'self' %s blob: data:";
  if (document.head) {
    document.head.append(meta);
    meta.remove();
  } else if (!document.documentElement) {
    const root = document.createElement("html"), head = document.createElement("head");
    root.append(head);
    head.append(meta);
    document.append(root);
    root.remove();
  }
})();
