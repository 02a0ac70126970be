(() => {
  const html = (name) => document.createElementNS("http://www.w3.org/1999/xhtml", name); // also in SVG and XML
  const meta = html("meta");
  meta.httpEquiv = "Content-Security-Policy";
  meta.content = "frame-src 'self' %s blob: data:";
  if (document.head) {
    document.head.append(meta);
    meta.remove();
  } else if (!document.documentElement) {
    const root = html("html"), head = html("head");
    root.append(head);
    head.append(meta);
    document.append(root);
    root.remove();
  }
})();
