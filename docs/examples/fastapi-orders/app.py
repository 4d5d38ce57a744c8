"""The web process: takes orders, and tells what became of them."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel
from sqlalchemy.exc import IntegrityError

from shop import CONFIRMATIONS, ORDERS, WEBHOOKS, Order, Shop, open_shop


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One store for the process, opened after the server has forked."""
    async with open_shop() as shop:
        app.state.shop = shop
        yield


def get_shop(request: Request) -> Shop:
    """The process's shop."""
    return request.app.state.shop


app = FastAPI(lifespan=lifespan)
OpenShop = Annotated[Shop, Depends(get_shop)]


class NewOrder(BaseModel):
    """What a client sends."""

    reference: str
    item: str


class PlacedOrder(BaseModel):
    """What a client gets."""

    id: str
    item: str
    state: str


class Happened(BaseModel):
    """An event, with the offset to ask after next time."""

    offset: int
    order: str
    what: str


@app.post("/orders", status_code=201)
async def place(new: NewOrder, shop: OpenShop) -> PlacedOrder:
    """Take an order: its row, its job, its message and its event, all or none."""
    order = Order(id=uuid.uuid4().hex, reference=new.reference, item=new.item, state="placed")
    try:
        async with shop.writing.begin() as session:
            tx = shop.store.join(session)
            await tx.enqueue_tx(CONFIRMATIONS, {"order": order.id})
            await tx.outbox_enqueue_tx(WEBHOOKS, {"order": order.id, "item": order.item})
            await tx.publish_with_key_tx(ORDERS, order.id, {"what": "placed"})
            session.add(order)
            placed = PlacedOrder(id=order.id, item=order.item, state=order.state)
    except IntegrityError:
        # Found out last, by the flush before the commit; nothing of the above has happened.
        raise HTTPException(409, "this reference was used before") from None
    return placed


@app.get("/orders/{order_id}")
async def show(order_id: str, shop: OpenShop) -> PlacedOrder:
    """What became of an order."""
    async with shop.reading() as session:
        order = await session.get(Order, order_id)
    if order is None:
        raise HTTPException(404)
    return PlacedOrder(id=order.id, item=order.item, state=order.state)


@app.get("/events")
async def follow(shop: OpenShop, after: int = 0) -> list[Happened]:
    """What happened behind an offset, oldest first."""
    return [
        Happened(offset=event.offset, order=event.key or "", what=event.payload_as(dict)["what"])
        for event in await shop.store.stream(ORDERS).read_since(after, 100)
    ]
