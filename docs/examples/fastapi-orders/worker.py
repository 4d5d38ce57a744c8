"""A worker process: confirms orders and calls the webhook. Run as many as there is work for."""

import asyncio
import os
import sys
from functools import partial

import httpx
from sqlalchemy import update

from alkstore_core.worker import OutboxWorker, Worker, run
from shop import CONFIRMATIONS, ORDERS, WEBHOOKS, Order, Shop, open_shop


async def confirm(shop: Shop, job: dict[str, str]) -> None:
    """Confirm an order. Done twice it changes nothing more, for a job may come twice."""
    async with shop.writing.begin() as session:
        result = await session.execute(
            update(Order)
            .where(Order.id == job["order"], Order.state == "placed")
            .values(state="confirmed")
        )
        if result.rowcount:
            tx = shop.store.join(session)
            await tx.publish_with_key_tx(ORDERS, job["order"], {"what": "confirmed"})


async def call_webhook(client: httpx.AsyncClient, url: str, order: dict[str, str]) -> None:
    """Tell the webhook of an order, at least once: the key lets it drop the second call."""
    answer = await client.post(url, json=order, headers={"Idempotency-Key": order["order"]})
    answer.raise_for_status()


async def main() -> None:
    """Work until SIGTERM or SIGINT, then finish what is in hand."""
    async with open_shop() as shop, httpx.AsyncClient(timeout=10) as client:
        workers = [Worker(shop.store, CONFIRMATIONS, partial(confirm, shop))]
        if url := os.environ.get("ORDERS_WEBHOOK"):
            deliver = partial(call_webhook, client, url)
            workers.append(OutboxWorker(shop.store, WEBHOOKS, deliver))
        else:
            print("ORDERS_WEBHOOK is not set: messages wait", file=sys.stderr)
        await run(*workers)


if __name__ == "__main__":
    asyncio.run(main())
