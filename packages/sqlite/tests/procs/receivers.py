"""Which receiver a write has to wake."""


def receiver_for(write, store, name="x"):
    """The receiver that waits for what `write` does to `name`."""
    match write.removesuffix("_tx"):
        case "notify":
            return store.listen(name)
        case "publish" | "publish_with_key":
            return store.stream(name).subscribe("me")
        case "outbox":
            return store.outbox(name).backing.wakes()
        case "enqueue" | "enqueue_many":
            return store.queue(name).wakes()
    raise ValueError(write)
