from django.urls import path

from apps.boundary.api import callback, waiting

urlpatterns = [
    path("callback/run", callback.CatalogView.as_view()),
    path("callback/calls", callback.CallsView.as_view()),
    path("callback/calls/<uuid:call_id>", waiting.call_state),
    path("callback/calls/<uuid:call_id>/images/<str:digest>", callback.CallImageView.as_view()),
    path("callback/finish", callback.FinishView.as_view()),
]
