// Search from disk: browsers start no worker on file:// pages, so its script runs in a hidden frame.
// Read by mkdocs-material's search through `extra.polyfills` in mkdocs.yml.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const page = this.frame.contentDocument;
      page.open();
      page.write("<!DOCTYPE html><script>postMessage = data => parent.postMessage(data, '*');" +
        "importScripts = (...urls) => Promise.all(urls.map(url => new Promise((done, failed) => {" +
        "const s = document.createElement('script'); s.src = url; s.onload = done; s.onerror = failed;" +
        "document.body.append(s); })));</script><script src=\"" + encodeURI(url) + "\"></script>");
      page.close();
      const worker = this.frame.contentWindow;
      this.ready = new Promise((done) => worker.addEventListener("load", done));
      addEventListener("message", (event) => {
        if (event.source !== worker) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      });
    }

    postMessage(data) {
      const worker = this.frame.contentWindow;
      this.ready.then(() => worker.dispatchEvent(new worker.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
