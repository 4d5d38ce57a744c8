"""A worker process: confirms orders and calls the webhook. Run as many as there is work for."""

import asyncio
import os
import signal
import sys

import httpx
from sqlalchemy import update

from alkstore_core import JobHandle, StopToken
from shop import CONFIRMATIONS, ORDERS, WEBHOOKS, Order, Shop, open_shop

NAME = f"{os.uname().nodename}:{os.getpid()}"


async def confirm(shop: Shop, order_id: str) -> None:
    """Confirm an order. Done twice it changes nothing more, for a job may come twice."""
    async with shop.writing.begin() as session:
        result = await session.execute(
            update(Order)
            .where(Order.id == order_id, Order.state == "placed")
            .values(state="confirmed")
        )
        if result.rowcount:
            tx = shop.store.join(session)
            await tx.publish_with_key_tx(ORDERS, order_id, {"what": "confirmed"})


async def confirm_orders(shop: Shop, stop: StopToken) -> None:
    """Confirm whatever is placed, until told to stop."""
    queue = shop.store.queue(CONFIRMATIONS)
    async with queue.wakes(stop) as wakes:
        while not stop.stopped:
            handle = await queue.claim_one(NAME)
            if handle is None:
                if await wakes.recv() is None:
                    return
                continue
            try:
                await confirm(shop, handle.job.payload_as(dict)["order"])
            except Exception as error:  # noqa: BLE001 - whatever it was, the job comes back
                await handle.retry(error)
            else:
                await handle.ack()


async def call_webhooks(shop: Shop, url: str, stop: StopToken) -> None:
    """Tell the webhook of each order, at least once, until told to stop."""
    outbox = shop.store.outbox(WEBHOOKS)
    async with (
        httpx.AsyncClient(timeout=10) as client,
        outbox.backing.wakes(stop) as wakes,
    ):

        async def deliver(handle: JobHandle) -> None:
            order = handle.job.payload_as(dict)
            answer = await client.post(url, json=order, headers={"Idempotency-Key": order["order"]})
            answer.raise_for_status()

        while not stop.stopped:
            if not await outbox.run_once(NAME, deliver) and await wakes.recv() is None:
                return


async def main() -> None:
    """Work until SIGTERM or SIGINT, then finish what is in hand."""
    stop = StopToken()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.stop)
    async with open_shop() as shop, asyncio.TaskGroup() as tasks:
        tasks.create_task(confirm_orders(shop, stop))
        if url := os.environ.get("ORDERS_WEBHOOK"):
            tasks.create_task(call_webhooks(shop, url, stop))
        else:
            print("ORDERS_WEBHOOK is not set: messages wait", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
