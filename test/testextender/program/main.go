// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

// The extender as a process.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/livesched/livesched/test/testextender"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	listen := flag.String("listen", "", "address of the extender")
	control := flag.String("control", "", "address where it is told what to answer")
	kubeconfig := flag.String("kubeconfig", "", "file of a kubeconfig to bind pods with")
	certificate := flag.String("cert", "", "file of its certificate; with one it speaks TLS")
	key := flag.String("key", "", "file of the certificate's key")
	clientCA := flag.String("client-ca", "", "file of the certificates that clients must be signed by; empty: they need none")
	flag.Parse()

	restConfig, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := clientset.NewForConfig(restConfig)
	if err != nil {
		return err
	}
	extender := &testextender.Server{Client: client}
	tlsConfig, err := tlsConfig(*clientCA)
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() {
		server := &http.Server{Addr: *control, Handler: http.HandlerFunc(extender.Control)}
		ended <- fmt.Errorf("control: %w", server.ListenAndServe())
	}()
	go func() {
		server := &http.Server{Addr: *listen, Handler: extender, TLSConfig: tlsConfig}
		if *certificate == "" {
			ended <- fmt.Errorf("extender: %w", server.ListenAndServe())
			return
		}
		ended <- fmt.Errorf("extender: %w", server.ListenAndServeTLS(*certificate, *key))
	}()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	select {
	case err := <-ended:
		return err
	case <-stop:
		return nil
	}
}

func tlsConfig(clientCA string) (*tls.Config, error) {
	if clientCA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(clientCA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificates in " + clientCA)
	}
	return &tls.Config{ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}, nil
}
